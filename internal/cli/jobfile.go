package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// jobFile is a job as it was read from a file.
type jobFile struct {
	path string // as the user named it
	base string // folder that its relative paths begin at
	body []byte
	spec *dag.Job
	// changed says that body does not say what spec does.
	changed bool
}

// stdinName is the argument for standard input, and its name in messages.
const stdinName = "-"

// readJob reads a job file, or standard input for "-".
func (a *app) readJob(path string) (*jobFile, error) {
	f := &jobFile{path: path, base: "."}
	var err error
	if path == stdinName {
		f.path = "stdin"
		f.body, err = io.ReadAll(io.LimitReader(a.In, dag.MaxFileBytes+1))
	} else {
		f.base = filepath.Dir(path)
		f.body, err = readFile(path)
	}
	if err != nil {
		return nil, err
	}
	f.spec, err = read.Job(f.path, bytes.NewReader(f.body))
	return f, err
}

// readFile reads a file that the user named, up to a byte more than a job may have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // only read from
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, badInput("name one file", "%s: is a directory", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, dag.MaxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return body, nil
}

func unreadable(path string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is said already
	}
	return because(err, ExitBadInput, "", "%s: %v", path, err)
}

// overrides are flags that take the place of what a job file says.
type overrides struct {
	objective choice
	deadline  spanFlag
	budget    float64
	queue     string
	flags     *cobra.Command
}

func overrideFlags(c *cobra.Command, queue bool) *overrides {
	o := &overrides{objective: newChoice("", string(dag.MinimizeCost), string(dag.MinimizeMakespan)), flags: c}
	f := c.Flags()
	f.Var(&o.objective, "objective", "what to minimise, instead of what the file says")
	completeChoice(c, "objective", &o.objective)
	f.Var(&o.deadline, "deadline", "time to finish in: 90m, 6h, 2d12h")
	f.Float64Var(&o.budget, "budget", 0, "the most it may cost, USD")
	if queue {
		f.StringVar(&o.queue, "queue", "", "queue to run in")
	}
	return o
}

// apply puts what the flags say in the place of what the file says.
func (o *overrides) apply(f *jobFile) error {
	set := o.flags.Flags().Changed
	if set("objective") {
		f.spec.Objective, f.changed = dag.Objective(o.objective.value), true
	}
	if set("deadline") {
		f.spec.Deadline, f.changed = o.deadline.value, true
	}
	if set("budget") {
		if !(o.budget > 0 && o.budget <= float64(dag.MaxBudget)) {
			return badInput("", "--budget: %v is not an amount of money above 0", o.budget)
		}
		f.spec.Budget, f.changed = dag.USD(o.budget), true
	}
	if set("queue") {
		f.spec.Queue, f.changed = o.queue, true
	}
	if !f.changed {
		return nil
	}
	var bad *dag.Error
	if err := f.spec.Validate(); errors.As(err, &bad) {
		return badInput(bad.Hint, "--%s: %s", bad.Field, bad.Reason)
	} else if err != nil {
		return err
	}
	return nil
}

// settle makes local paths absolute, since a machine has another directory, and checks that what should be there is:
// better now than in the middle of the job. Paths of SkyPilot files begin at the current directory, as SkyPilot has it; those of all others
// at the file's own.
func (f *jobFile) settle(home string) error {
	base := f.base
	if f.spec.Format == dag.SkyPilot {
		base = "."
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return fmt.Errorf("current directory: %w", err)
	}
	made := f.outputs(base, home)
	for i := range f.spec.Tasks {
		t := &f.spec.Tasks[i]
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
func (f *jobFile) outputs(base, home string) map[string]bool {
	made := map[string]bool{}
	for i := range f.spec.Tasks {
		for _, out := range f.spec.Tasks[i].Outputs {
			if path, ok := localPath(out.URI, base, home); ok {
				made[path] = true
			}
		}
	}
	return made
}

// place makes a path absolute that has to be there.
func (f *jobFile) place(task int, field string, path *string, base, home string, made map[string]bool) error {
	abs, ok := localPath(*path, base, home)
	if !ok {
		return nil
	}
	for dir := abs; !made[dir]; dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) { // no task makes it
			if !exists(abs) {
				return f.spec.ErrorAt(task, -1, "", fmt.Sprintf("%s: %q: there is no %s", field, *path, abs), "paths begin at "+base)
			}
			break
		}
	}
	f.move(path, base, home)
	return nil
}

// move makes a local path absolute.
func (f *jobFile) move(path *string, base, home string) {
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

// upload is what to hand in: the file as it is, so that the broker's messages name its lines, unless flags or paths changed what
// it says.
func (f *jobFile) upload() ([]byte, error) {
	if !f.changed {
		return f.body, nil
	}
	return native.Marshal(f.spec)
}
