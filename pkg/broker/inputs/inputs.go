// Package inputs asks stores, when a job is handed in, for what its tasks read and mount: what no machine could get is
// refused at its line of the file, before a machine is bought. It knows no records; a fault of a store that may pass
// refuses nothing.
package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/atonce"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Machine is the one that all tasks run on, where they run on the broker's own. Its errors say what it lacks, and what
// to do.
type Machine interface {
	Mounts(ctx context.Context) error     // that something can be mounted
	Containers(ctx context.Context) error // that an image can be run in
}

// Checker checks inputs.
type Checker struct {
	Stores grant.Store   // nil: what lies in stores is not checked
	AtOnce int           // how many requests for a job are under way at once; 0 is one
	Here   Machine       // nil: machines are bought, and bring or install what they lack
	Own    string        // URI of what all jobs keep, which nobody mounts
	For    time.Duration // how long what is mounted is lent for
	Log    *slog.Logger  // is told of stores that did not answer
}

// within bounds all that is asked for one job: who hands it in waits. What is not known by then is taken to be there.
const within = 10 * time.Second

// look is one field of a task's, of which a store is asked, and what is wrong with it.
type look struct {
	task      int
	field     string
	in        *dag.Input
	copied    bool
	lent      grant.Loan // what a mount takes, once it is known to be a folder
	why, hint string
}

// Check fails with a *dag.Error for the first input or workdir that names a bucket which is not there or may not be
// read, and for an input that cannot be mounted: an object, or a prefix for which nobody lends credentials. Whether an
// object or folder that is copied is there is not asked: another job may be making it. It takes a request for each
// bucket that is copied from and up to two for each mount. Loans are tried once for each bucket that is mounted, as a
// whole or in part, to read or to write.
func (c Checker) Check(ctx context.Context, spec *dag.Job) error {
	looks, lacks := c.looks(ctx, spec)
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.each(bounded, looks, func(l *look) {
		if l.copied {
			l.why, l.hint = c.copied(bounded, spec, l.in)
		} else {
			l.why, l.hint = c.mounted(bounded, l)
		}
	})
	c.each(bounded, lent(looks), func(l *look) { l.why, l.hint = c.lend(bounded, l) })
	for _, l := range looks {
		if l.why != "" {
			return spec.ErrorAt(l.task, dag.OfFiles, l.field, l.why, l.hint)
		}
	}
	return lacks
}

// each asks for fields side by side, until time is up.
func (c Checker) each(ctx context.Context, looks []*look, ask func(*look)) {
	var passed atomic.Int32
	atonce.Each(c.AtOnce, len(looks), func(i int) {
		if ctx.Err() != nil {
			passed.Add(1)
			return
		}
		ask(looks[i])
	})
	if n := passed.Load(); n > 0 {
		c.Log.Warn("inputs could not be checked in time", "inputs", n)
	}
}

// lent are the fields for which something is to be lent, one for all those that are lent the same by the same.
func lent(looks []*look) (out []*look) {
	seen := map[string]bool{}
	for _, l := range looks {
		if l.lent.Prefix == "" || l.why != "" {
			continue
		}
		bucket, err := grant.BucketOf(l.lent.Prefix)
		if err != nil {
			bucket = l.lent.Prefix
		}
		key := fmt.Sprint(bucket, " ", bucket == l.lent.Prefix, l.lent.Write)
		if !seen[key] {
			out = append(out, l)
		}
		seen[key] = true
	}
	return out
}

// looks are the fields of a job's tasks that stores are to be asked of, each once, up to the first task for which this
// machine lacks something.
func (c Checker) looks(ctx context.Context, spec *dag.Job) (looks []*look, lacks error) {
	checked := map[string]bool{}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue
		}
		if err := c.lacking(ctx, spec, i, checked); err != nil {
			return looks, err
		}
		add := func(field string, in *dag.Input) {
			copied := in.Mount == dag.Copied && in.Bucket == dag.BucketThere
			key := fmt.Sprint(in.URI, " ", in.Mount, in.Bucket)
			if bucket, err := grant.BucketOf(in.URI); copied && err == nil {
				key = bucket
			}
			if !checked[key] {
				looks = append(looks, &look{task: i, field: field, in: in, copied: copied})
			}
			checked[key] = true
		}
		add("workdir", &dag.Input{URI: t.Workdir})
		for k := range t.Inputs {
			add(dag.InputField(k), &t.Inputs[k])
		}
	}
	return looks, nil
}

// lacking says that this machine cannot do what a task needs of it, of which checked has what others needed before.
func (c Checker) lacking(ctx context.Context, spec *dag.Job, task int, checked map[string]bool) error {
	if c.Here == nil {
		return nil
	}
	t := &spec.Tasks[task]
	k := slices.IndexFunc(t.Inputs, func(in dag.Input) bool { return in.Mount != dag.Copied })
	if k >= 0 && !checked["mounts"] {
		checked["mounts"] = true
		if err := c.Here.Mounts(ctx); err != nil {
			return spec.ErrorAt(task, dag.OfFiles, dag.InputField(k),
				fmt.Sprintf("%q cannot be mounted on this computer: %s", t.Inputs[k].URI, err),
				"leave mount out to have it copied; `tradewind doctor` looks again")
		}
	}
	inside := func(r dag.Resources) bool { return r.Container() != "" }
	outside := func(r dag.Resources) bool { return !inside(r) }
	image := slices.IndexFunc(t.Resources, inside)
	if image < 0 || checked["images"] || slices.ContainsFunc(t.Resources, outside) {
		return nil
	}
	checked["images"] = true
	if err := c.Here.Containers(ctx); err != nil {
		return spec.ErrorAt(task, image, "image",
			fmt.Sprintf("%q cannot be run on this computer: %s", t.Resources[image].Image, err),
			"`tradewind doctor` looks again")
	}
	return nil
}

// copied says why an input cannot be read from its bucket. One that the job itself makes or writes to is not asked for.
func (c Checker) copied(ctx context.Context, spec *dag.Job, in *dag.Input) (why, hint string) {
	prefix, err := grant.AsPrefix(in.URI)
	if errors.Is(err, grant.ErrURI) && strings.Contains(in.URI, "://") {
		return fmt.Sprintf("%q cannot be read: %s", in.URI, err),
			"s3://BUCKET/PATH, gs://… and azblob://… name a bucket"
	}
	if err != nil || c.Stores == nil || made(spec, prefix) ||
		strings.HasPrefix(prefix, "file:") || strings.HasPrefix(prefix, "pack:") { // packs were looked for before
		return "", ""
	}
	_, err = c.Stores.List(ctx, prefix, "")
	if errors.Is(err, grant.ErrNoBucket) && c.isObject(ctx, in.URI) {
		return "", "" // it may be read, though its bucket may not be listed
	}
	return c.judge(fmt.Sprintf("%q cannot be read", in.URI), in.URI, err)
}

// made says that the job itself makes a bucket, or writes something that may be what is read.
func made(spec *dag.Job, prefix string) bool {
	bucket, _ := grant.BucketOf(prefix)
	return slices.ContainsFunc(spec.Tasks, func(t dag.Task) bool {
		return slices.ContainsFunc(t.Inputs, func(in dag.Input) bool {
			of, err := grant.BucketOf(in.URI)
			return err == nil && of == bucket && in.Bucket != dag.BucketThere
		}) || slices.ContainsFunc(t.Outputs, func(out dag.Output) bool {
			to, err := grant.AsPrefix(out.URI)
			return err == nil && (strings.HasPrefix(prefix, to) || strings.HasPrefix(to, prefix))
		})
	})
}

// mounted says why an input cannot be mounted, or its bucket made, and notes what would be lent for it.
func (c Checker) mounted(ctx context.Context, l *look) (why, hint string) {
	in, cannot := l.in, l.cannot()
	prefix, err := grant.AsPrefix(in.URI)
	if err != nil {
		return cannot + ": " + err.Error(), ""
	}
	if own, err := grant.AsPrefix(c.Own); err == nil && in.Mount != dag.Copied && strings.HasPrefix(own, prefix) {
		return cannot + ": what all jobs keep lies there", "name a prefix or bucket of your own"
	}
	if c.Stores == nil || strings.HasPrefix(prefix, "file:") { // the machine's own folder, which only it knows
		return "", ""
	}
	page, err := c.Stores.List(ctx, prefix, "")
	switch {
	case errors.Is(err, grant.ErrNoBucket) && in.Bucket != dag.BucketThere:
		return "", "" // it is made before its machine is bought
	case err != nil:
		return c.judge(cannot, in.URI, err)
	case len(page.Objects) == 0 && prefix != in.URI && c.isObject(ctx, in.URI):
		return cannot + ": it is an object, and what is mounted is a bucket or a folder of one",
			"leave mount out to have it copied, or name the folder that it lies in"
	case in.Mount != dag.Copied:
		l.lent = grant.Loan{Prefix: prefix, Write: in.Mount.Writes(), For: c.For}
	}
	return "", ""
}

func (l *look) cannot() string { return fmt.Sprintf("%q cannot be mounted", l.in.URI) }

// lend says why nobody lends what a mount takes.
func (c Checker) lend(ctx context.Context, l *look) (why, hint string) {
	_, err := grant.Lend(ctx, c.Stores, l.lent)
	if why, _ = c.judge(l.cannot(), l.in.URI, err); why != "" {
		return why, "leave mount out to have it copied; docs/mounts.md says what is to be set up"
	}
	return "", ""
}

// judge says what an error of a store means for a job: nothing where it may pass.
func (c Checker) judge(cannot, uri string, err error) (why, hint string) {
	if err == nil {
		return "", ""
	}
	for lasting, hint := range map[error]string{
		grant.ErrNoBucket: "name a bucket that is there and that the broker may read", grant.ErrURI: "",
		grant.ErrStore: "", errors.ErrUnsupported: "",
		grant.ErrCredentials: "log in as the cloud's own tools do (aws configure, gcloud auth application-default " +
			"login, az login), or set their variables, where the broker runs",
	} {
		if errors.Is(err, lasting) {
			return cannot + ": " + err.Error(), hint
		}
	}
	c.Log.Warn("an input could not be checked", "uri", uri, "err", err)
	return "", ""
}

// isObject says whether a URI is that of an object, by a granted request for its first byte.
func (c Checker) isObject(ctx context.Context, uri string) bool {
	grants, err := c.Stores.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: within, Range: &grant.Range{Length: 1}})
	if err != nil {
		return false
	}
	req, err := grants[0].Request(ctx, nil, 0)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()                                  //nolint:errcheck // read
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1)) // or it is not there
	return resp.StatusCode < 300 || resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
}
