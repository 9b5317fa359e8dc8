// Package inputs checks the inputs and mounts of tasks when a job is submitted. An input that no machine could get is
// refused with its line of the file, before a machine is bought. The package uses no records. A temporary failure of
// a store refuses nothing.
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

	"github.com/tradewind-broker/tradewind/internal/base/parallel"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Machine is the broker's own machine, for brokers whose tasks all run on it. Its errors state what the machine
// lacks, and how to fix that.
type Machine interface {
	Mounts(ctx context.Context) error     // fails if nothing can be mounted
	Containers(ctx context.Context) error // fails if containers cannot run
}

// Checker checks inputs.
type Checker struct {
	Stores grant.Store   // nil: inputs in stores are not checked
	AtOnce int           // maximum number of concurrent requests for a job; 0 means one
	Local  Machine       // nil: machines are bought, and have or install the necessary programs
	Own    string        // URI of the store of all jobs' data, which no task may mount
	For    time.Duration // lifetime of the credentials for a mount
	Log    *slog.Logger  // for warnings about stores that did not answer
}

// checkTimeout limits the time of all checks of one job, because the user waits for them. Inputs that are not checked
// by then are assumed to exist.
const checkTimeout = 10 * time.Second

// inputCheck is one field of a task to be checked with a store, and the problem that was found.
type inputCheck struct {
	task      int
	field     string
	in        *dag.Input
	copied    bool
	lent      grant.Loan // the credentials that a mount needs, set when the mount is known to be a folder
	why, hint string
}

// Check fails with a *dag.Error for the first input or workdir whose bucket does not exist or may not be read. It
// also fails for an input that cannot be mounted: an object, or a prefix for which no credentials are available. It
// does not check whether a copied object or folder exists, because another job may be making it. It makes one request
// for each bucket that is copied from, and up to two for each mount. Mounts of the same bucket for the same purpose
// (reading or writing) share one request for credentials.
func (c Checker) Check(ctx context.Context, spec *dag.Job) error {
	looks, lacks := c.looks(ctx, spec)
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c.each(bounded, looks, func(l *inputCheck) {
		if l.copied {
			l.why, l.hint = c.checkCopied(bounded, spec, l.in)
		} else {
			l.why, l.hint = c.checkMounted(bounded, l)
		}
	})
	c.each(bounded, loansNeeded(looks), func(l *inputCheck) { l.why, l.hint = c.checkLoan(bounded, l) })
	for _, l := range looks {
		if l.why != "" {
			return spec.ErrorAt(l.task, dag.FilesOfTask, l.field, l.why, l.hint)
		}
	}
	return lacks
}

// each calls ask for the fields, several at the same time, until ctx ends.
func (c Checker) each(ctx context.Context, looks []*inputCheck, ask func(*inputCheck)) {
	var passed atomic.Int32
	parallel.Each(c.AtOnce, len(looks), func(i int) {
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

// loansNeeded returns the fields that need credentials: one of each group of fields that would get the same
// credentials.
func loansNeeded(looks []*inputCheck) (out []*inputCheck) {
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

// looks returns the fields to check with stores, each once. It stops at the first task for which this machine lacks
// something, and returns that as lacks.
func (c Checker) looks(ctx context.Context, spec *dag.Job) (looks []*inputCheck, lacks error) {
	checked := map[string]bool{}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue
		}
		if err := c.checkMachine(ctx, spec, i, checked); err != nil {
			return looks, err
		}
		add := func(field string, in *dag.Input) {
			copied := in.Mount == dag.Copied && in.Bucket == dag.BucketExists
			key := fmt.Sprint(in.URI, " ", in.Mount, in.Bucket)
			if bucket, err := grant.BucketOf(in.URI); copied && err == nil {
				key = bucket
			}
			if !checked[key] {
				looks = append(looks, &inputCheck{task: i, field: field, in: in, copied: copied})
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

// checkMachine returns an error if this machine lacks something that a task needs. checked records the needs that
// were checked for earlier tasks.
func (c Checker) checkMachine(ctx context.Context, spec *dag.Job, task int, checked map[string]bool) error {
	if c.Local == nil {
		return nil
	}
	t := &spec.Tasks[task]
	k := slices.IndexFunc(t.Inputs, func(in dag.Input) bool { return in.Mount != dag.Copied })
	if k >= 0 && !checked["mounts"] {
		checked["mounts"] = true
		if err := c.Local.Mounts(ctx); err != nil {
			return spec.ErrorAt(task, dag.FilesOfTask, dag.InputField(k),
				fmt.Sprintf("%q cannot be mounted on this computer: %s", t.Inputs[k].URI, err),
				"leave mount out to have it copied; `tradewind doctor` checks again")
		}
	}
	inside := func(r dag.Resources) bool { return r.Container() != "" }
	outside := func(r dag.Resources) bool { return !inside(r) }
	image := slices.IndexFunc(t.Resources, inside)
	if image < 0 || checked["images"] || slices.ContainsFunc(t.Resources, outside) {
		return nil
	}
	checked["images"] = true
	if err := c.Local.Containers(ctx); err != nil {
		return spec.ErrorAt(task, image, "image",
			fmt.Sprintf("%q cannot be run on this computer: %s", t.Resources[image].Image, err),
			"`tradewind doctor` checks again")
	}
	return nil
}

// checkCopied returns the reason why an input cannot be read from its bucket, or "". It does not check data that the
// job itself creates.
func (c Checker) checkCopied(ctx context.Context, spec *dag.Job, in *dag.Input) (why, hint string) {
	prefix, err := grant.AsPrefix(in.URI)
	if errors.Is(err, grant.ErrURI) && strings.Contains(in.URI, "://") {
		return fmt.Sprintf("%q cannot be read: %s", in.URI, err),
			"s3://BUCKET/PATH, gs://… and azblob://… name a bucket"
	}
	if err != nil || c.Stores == nil || madeByJob(spec, prefix) ||
		strings.HasPrefix(prefix, "file:") || strings.HasPrefix(prefix, "pack:") { // packs have been checked before
		return "", ""
	}
	_, err = c.Stores.List(ctx, prefix, "")
	if errors.Is(err, grant.ErrNoBucket) && c.isObject(ctx, in.URI) {
		return "", "" // the object is readable, although its bucket cannot be listed
	}
	return c.judge(fmt.Sprintf("%q cannot be read", in.URI), in.URI, err)
}

// madeByJob reports whether the job itself creates the bucket, or writes data that may be the input.
func madeByJob(spec *dag.Job, prefix string) bool {
	bucket, _ := grant.BucketOf(prefix)
	return slices.ContainsFunc(spec.Tasks, func(t dag.Task) bool {
		return slices.ContainsFunc(t.Inputs, func(in dag.Input) bool {
			of, err := grant.BucketOf(in.URI)
			return err == nil && of == bucket && in.Bucket != dag.BucketExists
		}) || slices.ContainsFunc(t.Outputs, func(out dag.Output) bool {
			to, err := grant.AsPrefix(out.URI)
			return err == nil && (strings.HasPrefix(prefix, to) || strings.HasPrefix(to, prefix))
		})
	})
}

// checkMounted returns the reason why an input cannot be mounted or its bucket cannot be created, or "". It records
// the credentials that the mount needs.
func (c Checker) checkMounted(ctx context.Context, l *inputCheck) (why, hint string) {
	in, cannot := l.in, l.cannot()
	prefix, err := grant.AsPrefix(in.URI)
	if err != nil {
		return cannot + ": " + err.Error(), ""
	}
	if own, err := grant.AsPrefix(c.Own); err == nil && in.Mount != dag.Copied && strings.HasPrefix(own, prefix) {
		return cannot + ": it holds the data of all jobs", "name a prefix or bucket of your own"
	}
	if c.Stores == nil || strings.HasPrefix(prefix, "file:") { // a folder on the machine, which cannot be checked here
		return "", ""
	}
	page, err := c.Stores.List(ctx, prefix, "")
	switch {
	case errors.Is(err, grant.ErrNoBucket) && in.Bucket != dag.BucketExists:
		return "", "" // the bucket is created before the machine is bought
	case err != nil:
		return c.judge(cannot, in.URI, err)
	case len(page.Objects) == 0 && prefix != in.URI && c.isObject(ctx, in.URI):
		return cannot + ": it is an object, but only a bucket or a folder of one can be mounted",
			"leave mount out to have it copied, or name the folder that it is in"
	case in.Mount != dag.Copied:
		l.lent = grant.Loan{Prefix: prefix, Write: in.Mount.Writes(), For: c.For}
	}
	return "", ""
}

func (l *inputCheck) cannot() string { return fmt.Sprintf("%q cannot be mounted", l.in.URI) }

// checkLoan returns the reason why the credentials for a mount are not available, or "".
func (c Checker) checkLoan(ctx context.Context, l *inputCheck) (why, hint string) {
	_, err := grant.Lend(ctx, c.Stores, l.lent)
	if why, _ = c.judge(l.cannot(), l.in.URI, err); why != "" {
		return why, "leave mount out to have it copied; docs/mounts.md describes the setup"
	}
	return "", ""
}

// judge returns the reason to refuse a job because of a store's error. It returns "" if the error may be temporary.
func (c Checker) judge(cannot, uri string, err error) (why, hint string) {
	if err == nil {
		return "", ""
	}
	for lasting, hint := range map[error]string{
		grant.ErrNoBucket: "name a bucket that exists and that the broker may read", grant.ErrURI: "",
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

// isObject reports whether a URI names an object. It requests the object's first byte with a grant.
func (c Checker) isObject(ctx context.Context, uri string) bool {
	grants, err := c.Stores.Sign(
		ctx,
		grant.Want{Op: grant.Get, URI: uri, For: checkTimeout, Range: &grant.Range{Length: 1}},
	)
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
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1)) // an error does not matter: the status decides
	return resp.StatusCode < 300 || resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
}
