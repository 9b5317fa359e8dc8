// Package jobfile is a job as the command line reads it from a file, with the flags that take the place of what it
// says.
package jobfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// File is a job as it was read from a file.
type File struct {
	Path string // as messages name it
	base string // folder that its relative paths begin at
	body []byte
	Spec *dag.Job
	// Secrets are the values of the job's secrets, or where they are kept: Fill notes them.
	Secrets dag.SecretValues
	place   localfiles.Place
	// changed says that body does not say what Spec does.
	changed bool
}

// Changed says that what is handed in is not what the file says, so that the broker cannot tell of its warnings.
func (f *File) Changed() bool { return f.changed }

// Read reads a job file, or standard input for "-".
func Read(a *command.App, path string) (*File, error) { return readWith(a, path, nil) }

// readWith is Read with variables over those of the file.
func readWith(a *command.App, path string, env map[string]string) (*File, error) {
	f := &File{base: ".", changed: len(env) > 0}
	var err error
	if path != command.Stdin {
		f.base = filepath.Dir(path)
	}
	if f.Path, f.body, err = a.ReadInput(path); err != nil {
		return nil, err
	}
	if f.Spec, err = read.Given(f.Path, bytes.NewReader(f.body), env); err != nil {
		return f, err
	}
	if slurm.Looks(f.body) {
		a.Warn(f.leftBehind())
	}
	return f, nil
}

// leftBehind warns of files that a script of Slurm names and that lie beside it: it is used to a file system that all
// nodes share.
func (f *File) leftBehind() []string {
	var names []string
	for _, word := range strings.FieldsFunc(string(f.body), func(c rune) bool {
		return unicode.IsSpace(c) || strings.ContainsRune(`"'=<>;|&()`, c)
	}) {
		name := filepath.Clean(word)
		if !filepath.IsLocal(name) || name == filepath.Base(f.Path) || slices.Contains(names, name) {
			continue
		}
		if info, err := os.Stat(filepath.Join(f.base, name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	more := ""
	if len(names) > 1 {
		more = fmt.Sprintf(" and %d more", len(names)-1)
	}
	return []string{fmt.Sprintf("%s: %s%s beside it is not there where it runs: "+
		"`tradewind convert %[1]s --out job.yaml`, and write workdir: . in its task", f.Path, names[0], more)}
}

// Overrides are flags that take the place of what a job file says.
type Overrides struct {
	objective command.Choice
	deadline  command.Span
	budget    float64
	queue     string
	keep      command.Span
	env       Variables
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
	o.env.Flags(c)
	if queue {
		f.StringVar(&o.queue, "queue", "", "queue to run in")
		f.Var(&o.keep, "keep-on-failure",
			"how long the machines of a task that failed are kept to be looked at, within the budget: 30m, 1h")
	}
	return o
}

// Read reads a job file, or standard input for "-", with what the flags say in the place of what the file says.
func (o *Overrides) Read(a *command.App, path string) (*File, error) {
	env, err := o.env.Read(a)
	if err != nil {
		return nil, err
	}
	f, err := readWith(a, path, env)
	if err != nil {
		return nil, err
	}
	return f, o.apply(f)
}

func (o *Overrides) apply(f *File) error {
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
	if set("keep-on-failure") {
		f.Spec.KeepOnFailure, f.changed = o.keep.Value, true
	}
	if !f.changed {
		return nil
	}
	var bad *dag.Error
	if err := f.Spec.Validate(); errors.As(err, &bad) {
		flag := strings.Replace(bad.Field, "keepOnFailure", "keep-on-failure", 1)
		return command.BadInput(bad.Hint, "--%s: %s", flag, bad.Reason)
	} else if err != nil {
		return err
	}
	return nil
}

// OnClouds has the job's tasks run on some clouds only. An alternative of a task that names a cloud stays where it is
// one of them; one that names none becomes one for each. It fails where a task asks for other clouds alone.
func (f *File) OnClouds(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for i := range f.Spec.Tasks {
		t := &f.Spec.Tasks[i]
		alternatives := t.Resources
		if len(alternatives) == 0 {
			alternatives = []dag.Resources{{}}
		}
		var kept []dag.Resources
		for _, r := range alternatives {
			only := cmp.Or(r.Cloud, dag.ServiceCloud(r.Service))
			for _, name := range names {
				if only == "" || only == name {
					r.Cloud = name
					kept = append(kept, r)
				}
			}
		}
		if len(kept) == 0 {
			return command.BadInput("leave --cloud out, or change what the task asks for",
				"--cloud: task %q asks for other clouds than %s", t.Name, strings.Join(names, ", "))
		}
		t.Resources = kept
	}
	f.changed = true
	return nil
}

// Base is where the paths of a job begin whose file lies in a directory. Those of SkyPilot files begin at the current
// one, as SkyPilot has it.
func Base(spec *dag.Job, dir string) string {
	if spec.Format == dag.SkyPilot {
		return "."
	}
	return dir
}

// Settle sees that the files are there that the job brings along or reads.
func (f *File) Settle(ctx context.Context, home string, o pack.Options) error {
	base, err := filepath.Abs(Base(f.Spec, f.base))
	if err != nil {
		return fmt.Errorf("current directory: %w", err)
	}
	f.place = localfiles.Place{Base: base, Home: home}
	changed, err := f.place.Find(ctx, f.Spec, o)
	f.changed = f.changed || changed
	return err
}

// Pack brings those files where machines find them. Settle comes before it.
func (f *File) Pack(ctx context.Context, o pack.Options, bring localfiles.Bring) error {
	changed, err := f.place.Pack(ctx, f.Spec, o, bring)
	f.changed = f.changed || changed
	return err
}

// Upload is what to hand in: the file as it is, so that the broker's messages name its lines, unless flags or packs
// changed what it says.
func (f *File) Upload() ([]byte, error) {
	if !f.changed {
		return f.body, nil
	}
	return dag.Marshal(f.Spec)
}

// Locate has what the broker refuses name a line of the file. Where packs or flags changed what the file says, the
// broker was handed other lines.
func (f *File) Locate(err error) error {
	var bad *apitypes.Problem
	if !f.changed || !errors.As(err, &bad) || bad.File == "" || bad.Field == "" {
		return err
	}
	located := f.Spec.Locate(bad.Field, bad.Reason, bad.Hint)
	located.Cause = err
	return located
}
