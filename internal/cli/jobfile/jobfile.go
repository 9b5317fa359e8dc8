// Package jobfile is a job as the command line reads it from a file, with the flags that take the place of what it
// says.
package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// File is a job as it was read from a file.
type File struct {
	Path string // as messages name it
	base string // folder that its relative paths begin at
	body []byte
	Spec *dag.Job
	// changed says that body does not say what Spec does.
	changed bool
}

// Read reads a job file, or standard input for "-".
func Read(a *command.App, path string) (*File, error) {
	f := &File{base: "."}
	var err error
	if path != command.Stdin {
		f.base = filepath.Dir(path)
	}
	if f.Path, f.body, err = a.ReadInput(path); err != nil {
		return nil, err
	}
	f.Spec, err = read.Job(f.Path, bytes.NewReader(f.body))
	return f, err
}

// Overrides are flags that take the place of what a job file says.
type Overrides struct {
	objective command.Choice
	deadline  command.Span
	budget    float64
	queue     string
	flags     *cobra.Command
}

// OverrideFlags adds those flags to a command; not every one hands jobs to a queue.
func OverrideFlags(c *cobra.Command, queue bool) *Overrides {
	o := &Overrides{objective: command.NewChoice("", string(dag.MinimizeCost), string(dag.MinimizeMakespan)), flags: c}
	f := c.Flags()
	f.Var(&o.objective, "objective", "what to minimise, instead of what the file says")
	command.CompleteChoice(c, "objective", &o.objective)
	f.Var(&o.deadline, "deadline", "time to finish in: 90m, 6h, 2d12h")
	f.Float64Var(&o.budget, "budget", 0, "the most it may cost, USD")
	if queue {
		f.StringVar(&o.queue, "queue", "", "queue to run in")
	}
	return o
}

// Apply puts what the flags say in the place of what the file says.
func (o *Overrides) Apply(f *File) error {
	set := o.flags.Flags().Changed
	if set("objective") {
		f.Spec.Objective, f.changed = dag.Objective(o.objective.Value), true
	}
	if set("deadline") {
		f.Spec.Deadline, f.changed = o.deadline.Value, true
	}
	if set("budget") {
		if !(o.budget > 0 && o.budget <= float64(dag.MaxBudget)) {
			return command.BadInput("", "--budget: %v is not an amount of money above 0", o.budget)
		}
		f.Spec.Budget, f.changed = dag.USD(o.budget), true
	}
	if set("queue") {
		f.Spec.Queue, f.changed = o.queue, true
	}
	if !f.changed {
		return nil
	}
	var bad *dag.Error
	if err := f.Spec.Validate(); errors.As(err, &bad) {
		return command.BadInput(bad.Hint, "--%s: %s", bad.Field, bad.Reason)
	} else if err != nil {
		return err
	}
	return nil
}

// Settle makes local paths absolute, since a machine has another directory, and checks that what should be there is:
// better now than in the middle of the job. Paths of SkyPilot files begin at the current directory, as SkyPilot has it;
// those of all others at the file's own.
func (f *File) Settle(home string) error {
	base := f.base
	if f.Spec.Format == dag.SkyPilot {
		base = "."
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return fmt.Errorf("current directory: %w", err)
	}
	made := f.outputs(base, home)
	for i := range f.Spec.Tasks {
		t := &f.Spec.Tasks[i]
		if t.StandIn() {
			continue // its inputs are sizes to plan with
		}
		if err := f.place(i, "workdir", &t.Workdir, base, home, made); err != nil {
			return err
		}
		for k := range t.Inputs {
			if err := f.place(i, "inputs", &t.Inputs[k].URI, base, home, made); err != nil {
				return err
			}
		}
		for k := range t.Outputs {
			f.move(&t.Outputs[k].URI, base, home)
		}
	}
	return nil
}

// outputs are the local paths that tasks of the job write to: they need not be there yet.
func (f *File) outputs(base, home string) map[string]bool {
	made := map[string]bool{}
	for i := range f.Spec.Tasks {
		for _, out := range f.Spec.Tasks[i].Outputs {
			if path, ok := localPath(out.URI, base, home); ok {
				made[path] = true
			}
		}
	}
	return made
}

// place makes a path absolute that has to be there.
func (f *File) place(task int, field string, path *string, base, home string, made map[string]bool) error {
	abs, ok := localPath(*path, base, home)
	if !ok {
		return nil
	}
	for dir := abs; !made[dir]; dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) { // no task makes it
			if !command.Exists(abs) {
				return f.Spec.ErrorAt(task, -1, "", fmt.Sprintf("%s: %q: there is no %s", field, *path, abs),
					"paths begin at "+base)
			}
			break
		}
	}
	f.move(path, base, home)
	return nil
}

// move makes a local path absolute.
func (f *File) move(path *string, base, home string) {
	if abs, ok := localPath(*path, base, home); ok && *path != abs && !strings.HasPrefix(*path, "file:") {
		*path, f.changed = abs, true
	}
}

// localPath is the absolute path on this computer that a path or URL of a job file means, if it does.
func localPath(s, base, home string) (string, bool) {
	if s == "" {
		return "", false
	}
	if u, err := url.Parse(s); err == nil && u.Scheme != "" {
		return filepath.FromSlash(u.Path), u.Scheme == "file"
	}
	if rest, ok := strings.CutPrefix(s, "~/"); ok && home != "" {
		return filepath.Join(home, rest), true
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), true
	}
	return filepath.Join(base, s), true
}

// Upload is what to hand in: the file as it is, so that the broker's messages name its lines, unless flags or paths
// changed what it says.
func (f *File) Upload() ([]byte, error) {
	if !f.changed {
		return f.body, nil
	}
	return native.Marshal(f.Spec)
}
