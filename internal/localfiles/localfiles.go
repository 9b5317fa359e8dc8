// Package localfiles finds what a job names on the computer it is handed in from, puts packs (pkg/pack) in its place, so
// that no machine needs a path of that computer, and uploads what the broker lacks of them.
//
// A path without a scheme is of that computer. file:///data means the machine's own disk, wherever that is, and stays.
// So does a path that another task of the job writes to: it is not there yet.
package localfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// Place is where a job's paths begin.
type Place struct {
	Base string // absolute: of relative paths
	Home string // of those under ~/; empty leaves them
}

// Find makes the job's paths absolute and sees that what should be there is, and can be packed: better now than in the
// middle of the job. It notes how large inputs are that say no size. It fails with a *dag.Error.
func (p Place) Find(ctx context.Context, spec *dag.Job, o pack.Options) (changed bool, err error) {
	made := p.outputs(spec)
	found := map[string]*pack.Tree{}
	err = each(spec, func(task int, field string, uri *string, in *dag.Input) error {
		abs, ok := p.path(*uri)
		if !ok {
			return nil
		}
		if *uri != abs {
			changed = true
		}
		if made.has(abs) {
			*uri = abs
			return nil
		}
		if found[abs] == nil {
			t, err := pack.Scan(ctx, abs, o)
			if err != nil {
				return p.explain(spec, task, field, *uri, abs, err)
			}
			found[abs] = t
			if err := t.Close(); err != nil {
				return err
			}
		}
		if in == nil && found[abs].Single() {
			return spec.ErrorAt(task, dag.OfFiles, field, fmt.Sprintf("%q is a file, not a folder: %s", *uri, abs),
				"name the folder that it lies in, or put the file into inputs")
		}
		if in == nil {
			if err := mountedOver(spec, task, found[abs]); err != nil {
				return err
			}
		}
		*uri = abs
		if in != nil && in.Size == 0 {
			in.Size = dag.GiB(float64(found[abs].Bytes()) / (1 << 30))
		}
		return nil
	})
	return changed, err
}

// mountedOver says which mount of a task would hide what its working folder brings along.
func mountedOver(spec *dag.Job, task int, workdir *pack.Tree) error {
	for k := range spec.Tasks[task].Inputs {
		in := &spec.Tasks[task].Inputs[k]
		if in.Mount == dag.Copied || in.Path == "" {
			continue
		}
		if hidden, some := workdir.At(path.Clean(in.Path)); some {
			return spec.ErrorAt(task, dag.OfFiles, dag.InputField(k),
				fmt.Sprintf("would be mounted over %s of the workdir", hidden),
				"give the mount a folder that is empty or not in the workdir, or leave that out in .tradewindignore")
		}
	}
	return nil
}

// Bring packs a folder or file, brings it where machines find it, and returns how it is referred to.
type Bring func(ctx context.Context, path string, o pack.Options) (uri string, err error)

// Pack puts packs in the place of the paths of a job that Find has seen, and of git repositories, which are cloned. It
// fails with a *dag.Error, or as bring does.
func (p Place) Pack(ctx context.Context, spec *dag.Job, o pack.Options, bring Bring) (changed bool, err error) {
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

// each calls do with what each task brings along or reads, until one fails.
func each(spec *dag.Job, do func(task int, field string, uri *string, in *dag.Input) error) error {
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue // its files are sizes to plan with
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

// Paths calls do with all that may be a path from the folder of a job's file: what tasks bring along or read, what they
// write to, and repositories. do changes those that are.
func Paths(spec *dag.Job, do func(path *string)) {
	_ = each(spec, func(_ int, _ string, uri *string, _ *dag.Input) error { // which never fails
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

// explain says where in the job's file something is that cannot be packed.
func (p Place) explain(spec *dag.Job, task int, field, uri, abs string, err error) error {
	var large *pack.Large
	var changed *pack.Changed
	var where *fs.PathError
	reason, hint := err.Error(), ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason, hint = fmt.Sprintf("%q: there is no %s", uri, abs), "paths begin at "+p.Base
	case errors.As(err, &large):
		hint = large.Hint()
	case errors.Is(err, ErrFull):
		hint = "free some of its disk, and hand the job in again: what has arrived is not sent twice"
	case errors.Is(err, pack.ErrUnfit), errors.Is(err, errClone), errors.As(err, &changed):
	case errors.As(err, &where):
		reason = fmt.Sprintf("%q: %s", uri, err)
	default:
		return err
	}
	bad := spec.ErrorAt(task, dag.OfFiles, field, reason, hint)
	bad.Cause = err
	return bad
}

// outputs are the local paths that tasks of a job write to.
type outputs map[string]bool

// outputs makes those absolute as well.
func (p Place) outputs(spec *dag.Job) outputs {
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

// has says whether a task writes a path, or a folder that it lies in.
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

// path is the absolute path on this computer that a job means, if it does.
func (p Place) path(s string) (string, bool) {
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
