// Package jobfile reads job files for the command line, and applies the flags that override them.
package jobfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// File is a job that was read from a file.
type File struct {
	Path string // name for messages
	base string // folder of its relative paths
	body []byte
	Spec *dag.Job
	// Secrets are the values of the job's secrets, or where they are stored. Fill sets them.
	Secrets dag.SecretValues
	place   localfiles.Base
	// changed is true if body differs from Spec.
	changed bool
}

// Changed reports whether the submitted job differs from the file, so that the broker cannot warn about lines of the
// file.
func (f *File) Changed() bool { return f.changed }

// Read reads a job file, or standard input for "-".
func Read(a *command.App, path string) (*File, error) { return readWith(a, path, nil) }

// readWith is Read with variables that override those of the file.
func readWith(a *command.App, path string, env map[string]string) (*File, error) {
	f := &File{base: "."}
	var err error
	if path != command.Stdin {
		f.base = filepath.Dir(path)
	}
	f.Path, f.body, err = a.ReadInput(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, command.BadInput("`tradewind init` asks three questions and writes a job file", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	return parse(a, f, env)
}

// parse parses the body of a file.
func parse(a *command.App, f *File, env map[string]string) (_ *File, err error) {
	f.changed = len(env) > 0
	if f.Spec, err = read.JobWithEnv(f.Path, bytes.NewReader(f.body), env); err != nil {
		f.Spec = dag.RestOf(err)
		return f, err
	}
	if slurm.IsScript(f.body) {
		a.Warn(f.missingFileWarnings())
	}
	return f, nil
}

// missingFileWarnings warns about local files that a Slurm script names: the script may expect a file system that all
// nodes share.
func (f *File) missingFileWarnings() []string {
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
	return []string{fmt.Sprintf("%s: %s%s will be missing on the machine. Use "+
		"`tradewind convert %[1]s --out job.yaml`, and add workdir: . to its task", f.Path, names[0], more)}
}

// Overrides are flags that override values of a job file.
type Overrides struct {
	// Args are the arguments of a Slurm script.
	Args []string
	// Body is the content of the job file; nil reads it from the path.
	Body []byte

	objective command.Choice
	weights   string
	deadline  command.Span
	budget    command.Money
	queue     string
	keep      command.Span
	env       Variables
	flags     *cobra.Command
}

// OverrideFlags adds the override flags to a command; queue adds those for submitted jobs.
func OverrideFlags(c *cobra.Command, queue bool) *Overrides {
	o := &Overrides{objective: command.NewChoice("", string(dag.MinimizeCost), string(dag.MinimizeMakespan)), flags: c}
	f := c.Flags()
	f.Var(&o.objective, "objective", "what to minimise; overrides the file")
	command.CompleteChoice(c, "objective", &o.objective)
	f.StringVar(&o.weights, "weights", "", "minimise cost × USD + time × hours, as cost=1,time=0.5; overrides the file")
	f.Var(&o.deadline, "deadline", "maximum time until the job finishes: 90m, 6h, 2d12h")
	f.Var(&o.budget, "budget", "maximum cost: 20, '20 USD' or '$20'")
	o.env.Flags(c)
	if queue {
		f.StringVar(&o.queue, "queue", "", "queue to run in")
		f.Var(&o.keep, "keep-on-failure",
			"how long to keep the machines of a failed task for inspection: 30m, 1h; this counts against the budget")
	}
	return o
}

// Read reads a job file, or standard input for "-", and applies the flags. With an error about the file's content it
// also returns the file, for AddMissing.
func (o *Overrides) Read(a *command.App, path string) (*File, error) {
	env, err := o.env.Read(a)
	if err != nil {
		return nil, err
	}
	f, err := o.read(a, path, env)
	if err != nil {
		return f, err
	}
	if len(o.Args) > 0 {
		if f.Spec.Format != dag.Slurm {
			return nil, command.BadInput("", "%s: only a Slurm script has arguments, such as %q", f.Path, o.Args[0])
		}
		slurm.SetArgs(f.Spec, o.Args)
		f.changed = true
	}
	return f, o.apply(f)
}

func (o *Overrides) read(a *command.App, path string, env map[string]string) (*File, error) {
	if o.Body != nil {
		return parse(a, &File{Path: path, body: o.Body, base: "."}, env)
	}
	return readWith(a, path, env)
}

// parseWeights reads the weights of the objective: cost=1,time=0.5.
func parseWeights(s string) (*dag.Weights, error) {
	w, given := &dag.Weights{}, map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := dag.ParseWeight(strings.TrimSpace(value))
		if err != nil {
			return nil, err
		}
		switch name = strings.TrimSpace(name); {
		case given[name]:
			return nil, fmt.Errorf("%s is given twice", name)
		case name == "cost":
			w.Cost = v
		case name == "time":
			w.Time = v
		default:
			return nil, fmt.Errorf("%q is not a weight", name)
		}
		given[name] = true
	}
	if len(given) < 2 {
		return nil, errors.New("both are needed")
	}
	return w, w.Check()
}

func (o *Overrides) apply(f *File) error {
	set := o.flags.Flags().Changed
	if set("objective") {
		f.Spec.Objective, f.Spec.Weights, f.changed = dag.Objective(o.objective.Value), nil, true
	}
	if set("weights") {
		w, err := parseWeights(o.weights)
		if err != nil || set("objective") {
			return command.BadInput("write --weights cost=1,time=0.5, without --objective",
				"--weights: %q is not both weights", o.weights)
		}
		f.Spec.Objective, f.Spec.Weights, f.changed = dag.MinimizeWeighted, w, true
	}
	if set("deadline") {
		f.Spec.Deadline, f.changed = o.deadline.Value, true
	}
	if set("budget") {
		f.Spec.Budget, f.changed = o.budget.Value, true
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

// OnClouds restricts the job's tasks to some clouds. An alternative of a task that names one of them stays; one that
// names no cloud becomes one alternative for each. It fails if a task only asks for other clouds.
func (f *File) OnClouds(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for i := range f.Spec.Tasks {
		t := &f.Spec.Tasks[i]
		var kept []dag.Resources
		for _, r := range alternatives(t) {
			only := r.Cloud
			for _, name := range names {
				if only == "" || only == name {
					r.Cloud = name
					kept = append(kept, r)
				}
			}
		}
		if len(kept) == 0 {
			return command.BadInput("leave --cloud out, or change what the task asks for",
				"--cloud: task %q only asks for clouds other than %s", t.Name, strings.Join(names, ", "))
		}
		t.Resources = kept
	}
	f.changed = true
	return nil
}

// Folder returns the folder of the job file, or the current folder if the job is from standard input.
func (f *File) Folder() string { return f.base }

// DefaultFrom reads the user's settings, applies them as Default does, and says which ones apply.
func (f *File) DefaultFrom(a *command.App, named bool) error {
	s, err := settings.Load(a.Lookup, f.base)
	if err != nil {
		return err
	}
	applied, err := f.Default(s, named)
	if len(applied) > 0 {
		a.Tell("defaults: %s", strings.Join(applied, ", "))
	}
	return err
}

// Default applies the user's defaults to the fields that the job leaves open. named reports that a flag names the
// clouds: then neither default clouds nor default regions apply. It returns the defaults that apply, for people.
func (f *File) Default(s *settings.Settings, named bool) (applied []string, err error) {
	j := f.Spec
	note := func(what, source string) { applied = append(applied, what+" ("+source+")") }
	if j.Budget == 0 && s.Budget.Set() {
		j.Budget = s.Budget.Is
		note(fmt.Sprintf("budget %s USD", readable.USD(float64(j.Budget))), s.Budget.Source)
	}
	if j.Queue == "" && s.Queue.Set() {
		j.Queue = s.Queue.Is
		note("queue "+j.Queue, s.Queue.Source)
	}
	if j.Keep == 0 && s.Keep.Set() {
		j.Keep = s.Keep.Is
		note("keep "+dag.FormatKeep(j.Keep), s.Keep.Source)
	}
	if len(j.Regions) == 0 && !named {
		if f.defaultClouds(s.Clouds.Is) {
			note("clouds "+strings.Join(s.Clouds.Is, ", "), s.Clouds.Source)
		}
		if s.Regions.Set() {
			j.Regions = slices.Clone(s.Regions.Is)
			note("regions "+strings.Join(j.Regions, ", "), s.Regions.Source)
		}
	}
	if len(applied) == 0 {
		return nil, nil
	}
	f.changed = true
	if err := j.Validate(); err != nil {
		return nil, command.BadInput("change it, or the file of the job",
			"%v, with the defaults %s", err, strings.Join(applied, ", "))
	}
	return applied, nil
}

// defaultClouds restricts alternatives that name no cloud to some clouds, and reports whether there were any.
func (f *File) defaultClouds(names []string) (any bool) {
	if len(names) == 0 {
		return false
	}
	for i := range f.Spec.Tasks {
		t := &f.Spec.Tasks[i]
		var kept []dag.Resources
		for _, r := range alternatives(t) {
			if r.Cloud != "" {
				kept = append(kept, r)
				continue
			}
			any = true
			for _, name := range names {
				r.Cloud = name
				kept = append(kept, r)
			}
		}
		t.Resources = kept
	}
	return any
}

// alternatives returns the alternative resources that a task requests, at least one.
func alternatives(t *dag.Task) []dag.Resources {
	if len(t.Resources) == 0 {
		return []dag.Resources{{}}
	}
	return t.Resources
}

// Base returns the folder of a job's relative paths, for a job file in dir. As in SkyPilot, paths of SkyPilot files are
// relative to the current folder.
func Base(spec *dag.Job, dir string) string {
	if spec.Format == dag.SkyPilot {
		return "."
	}
	return dir
}

// AddMissing adds to an error about the file's content the local files that do not exist, as far as the file could be
// read, and what the further checks find, so that the user sees all faults at once.
func (f *File) AddMissing(ctx context.Context, home string, o pack.Options, err error,
	further ...func(*dag.Job) error) error {
	if f == nil || f.Spec == nil {
		return err
	}
	faults := []error{err}
	for _, check := range further {
		faults = append(faults, check(f.Spec))
	}
	var all fault.Faults
	return all.With(append(faults, f.Settle(ctx, home, o))...)
}

// Settle checks that all local files that the job uploads or reads exist.
func (f *File) Settle(ctx context.Context, home string, o pack.Options) error {
	base, err := filepath.Abs(Base(f.Spec, f.base))
	if err != nil {
		return fmt.Errorf("current directory: %w", err)
	}
	f.place = localfiles.Base{Base: base, Home: home}
	changed, err := f.place.Find(ctx, f.Spec, o)
	f.changed = f.changed || changed
	return err
}

// Pack uploads those files so that machines can get them. Call Settle first.
func (f *File) Pack(ctx context.Context, o pack.Options, bring localfiles.Uploader) error {
	changed, err := f.place.Pack(ctx, f.Spec, o, bring)
	f.changed = f.changed || changed
	return err
}

// Upload returns the job to submit: the file unchanged, so that the broker's messages name its lines, unless flags or
// packing changed the job.
func (f *File) Upload() ([]byte, error) {
	if !f.changed {
		return f.body, nil
	}
	return dag.Marshal(f.Spec)
}

// AddPosition adds the line of the file to an error of the broker. It is needed if flags or packing changed the job, so
// that the broker saw other lines.
func (f *File) AddPosition(err error) error {
	var bad *apitypes.Problem
	if !f.changed || !errors.As(err, &bad) || bad.File == "" || bad.Field == "" {
		return err
	}
	located := f.Spec.Locate(bad.Field, bad.Reason, bad.Hint)
	located.Cause = err
	return located
}
