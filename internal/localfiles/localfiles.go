// Package localfiles finds the files that a job names on the computer from which it is submitted, replaces them by
// packs (internal/pack), so that machines need no path of that computer, and uploads the pieces that the broker does
// not have.
//
// A path without a scheme is on that computer. file:///data means the disk of the machine that runs the task, and
// stays. A path that another task of the job writes also stays, because it does not exist yet.
//
// It also finds the broker that uses a state folder on this computer: a program that only calls a broker does not link
// one.
package localfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Base is the start of a job's paths.
type Base struct {
	Base string // absolute folder of relative paths
	Home string // folder of paths that begin with ~/; if empty, they do not change
}

// Find makes the job's paths absolute and checks that the files exist and can be packed, so that errors show before
// the job starts. It sets the size of inputs without one. It returns a *dag.Error with all faults.
func (p Base) Find(ctx context.Context, spec *dag.Job, o pack.Options) (changed bool, err error) {
	f := finder{Base: p, spec: spec, made: p.outputs(spec), trees: map[string]*pack.Tree{}, missing: map[string]error{}}
	var all fault.Faults
	err = each(spec, func(task int, field string, uri *string, in *dag.Input) error {
		before := *uri
		err := f.find(ctx, task, field, uri, in, o)
		changed = changed || *uri != before
		var bad *dag.Error
		if errors.As(err, &bad) && all.Add(bad) {
			return nil
		}
		return err
	})
	return changed, cmp.Or(all.Err(), err)
}

// finder finds the local files of a job.
type finder struct {
	Base
	spec    *dag.Job
	made    outputs
	trees   map[string]*pack.Tree // by path
	missing map[string]error      // by path
}

// find finds one file or folder of a task, and makes its path absolute.
func (f *finder) find(ctx context.Context, task int, field string, uri *string, in *dag.Input, o pack.Options) error {
	abs, ok := f.path(*uri)
	if !ok {
		return nil
	}
	if f.made.has(abs) {
		*uri = abs
		return nil
	}
	tree, err := f.scan(ctx, abs, o)
	if err != nil {
		return f.explain(f.spec, task, field, *uri, abs, err)
	}
	if in == nil && tree.Single() {
		return f.spec.ErrorAt(task, dag.FilesOfTask, field, fmt.Sprintf("%q is a file, not a folder: %s", *uri, abs),
			"name the folder that contains it, or put the file into inputs")
	}
	if in == nil {
		if err := checkMounts(f.spec, task, tree); err != nil {
			return err
		}
	}
	*uri = abs
	if in != nil && in.Size == 0 {
		in.Size = dag.GiB(float64(tree.Bytes()) / (1 << 30))
	}
	return nil
}

// scan reads a file or folder once.
func (f *finder) scan(ctx context.Context, abs string, o pack.Options) (*pack.Tree, error) {
	if f.trees[abs] != nil || f.missing[abs] != nil {
		return f.trees[abs], f.missing[abs]
	}
	tree, err := pack.Scan(ctx, abs, o)
	if err == nil {
		err = tree.Close()
	}
	f.trees[abs], f.missing[abs] = tree, err
	return tree, err
}

// checkMounts returns an error if a mount of a task would hide files of its working folder.
func checkMounts(spec *dag.Job, task int, workdir *pack.Tree) error {
	for k := range spec.Tasks[task].Inputs {
		in := &spec.Tasks[task].Inputs[k]
		if in.Mount == dag.Copied || in.Path == "" {
			continue
		}
		if hidden, some := workdir.At(path.Clean(in.Path)); some {
			return spec.ErrorAt(
				task,
				dag.FilesOfTask,
				dag.InputField(k),
				fmt.Sprintf("would be mounted over %s of the workdir", hidden),
				"give the mount a folder that is empty or not in the workdir, or leave these files out in "+
					".tradewindignore",
			)
		}
	}
	return nil
}

// Uploader packs and uploads a folder or file, and returns the pack's URI.
type Uploader func(ctx context.Context, path string, o pack.Options) (uri string, err error)

// Pack replaces the local paths of a job, after Find, and git repositories, which it clones, by packs. It returns a
// *dag.Error or bring's error.
func (p Base) Pack(ctx context.Context, spec *dag.Job, o pack.Options, bring Uploader) (changed bool, err error) {
	if changed, err = p.clone(ctx, spec, o, bring); err != nil {
		return changed, err
	}
	made := p.outputs(spec)
	packed := map[string]string{}
	err = each(spec, func(task int, field string, uri *string, _ *dag.Input) error {
		abs, ok := p.path(*uri)
		if !ok || made.has(abs) {
			return nil
		}
		if packed[abs] == "" {
			var err error
			if packed[abs], err = bring(ctx, abs, o); err != nil {
				return p.explain(spec, task, field, *uri, abs, err)
			}
		}
		*uri, changed = packed[abs], true
		return nil
	})
	return changed, err
}

// each calls do for everything that tasks upload or read, until one fails.
func each(spec *dag.Job, do func(task int, field string, uri *string, in *dag.Input) error) error {
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue // its files are only sizes for planning
		}
		if err := do(i, "workdir", &t.Workdir, nil); err != nil {
			return err
		}
		for k := range t.Inputs {
			if err := do(i, dag.InputField(k), &t.Inputs[k].URI, &t.Inputs[k]); err != nil {
				return err
			}
			if err := do(i, dag.InputField(k), &t.Inputs[k].Source, &t.Inputs[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Paths calls do for everything that may be a path relative to the folder of a job's file: files that tasks upload,
// read or write, and repositories. do changes those that are paths.
func Paths(spec *dag.Job, do func(path *string)) {
	_ = each(spec, func(_ int, _ string, uri *string, _ *dag.Input) error { // never fails
		do(uri)
		return nil
	})
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		for k := range t.Outputs {
			if !t.StandIn() {
				do(&t.Outputs[k].URI)
			}
		}
		if t.Repository != nil && local(*t.Repository) {
			moved := *t.Repository
			do(&moved.URL)
			t.Repository = &moved
		}
	}
}

// explain returns an error with the place in the job's file of something that cannot be packed.
func (p Base) explain(spec *dag.Job, task int, field, uri, abs string, err error) error {
	var large *pack.Large
	var changed *pack.Changed
	var where *fs.PathError
	reason, hint := err.Error(), ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason, hint = fmt.Sprintf("%q: there is no %s", uri, abs), "paths begin at "+p.Base
		if strings.Contains(uri, "$") {
			hint = "a variable without a value in the file is not replaced: write the path"
		}
	case errors.As(err, &large):
		hint = large.Hint()
	case errors.Is(err, ErrFull):
		hint = "free some of its disk, and submit the job again: files that have arrived are not sent again"
	case errors.Is(err, pack.ErrUnpackable), errors.Is(err, errCannotClone), errors.As(err, &changed):
	case errors.As(err, &where):
		reason = fmt.Sprintf("%q: %s", uri, err)
	default:
		return err
	}
	bad := spec.ErrorAt(task, dag.FilesOfTask, field, reason, hint)
	bad.Cause = err
	return bad
}

// outputs are the local paths that tasks of a job write.
type outputs map[string]bool

// outputs returns these paths and makes them absolute.
func (p Base) outputs(spec *dag.Job) outputs {
	made := outputs{}
	for i := range spec.Tasks {
		for k := range spec.Tasks[i].Outputs {
			if out := &spec.Tasks[i].Outputs[k]; out.URI != "" && !spec.Tasks[i].StandIn() {
				if path, ok := p.path(out.URI); ok {
					made[path], out.URI = true, path
				} else if u, err := url.Parse(out.URI); err == nil && u.Scheme == "file" {
					made[filepath.FromSlash(u.Path)] = true
				}
			}
		}
	}
	return made
}

// has reports whether a task writes a path, or a folder that contains it.
func (made outputs) has(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		if made[dir] {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// path returns the absolute path on this computer that a string in a job means; false if it is not a local path.
func (p Base) path(s string) (string, bool) {
	if s == "" || strings.Contains(s, "://") {
		return "", false
	}
	if rest, ok := strings.CutPrefix(s, "~/"); ok && p.Home != "" {
		return filepath.Join(p.Home, rest), true
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), true
	}
	return filepath.Join(p.Base, s), true
}
