package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// checkMounts refuses a job that mounts what cannot be mounted, as far as the stores tell: a bucket that is not there,
// an object, or a prefix for which nobody lends credentials. It costs some requests for each bucket that is named.
func (b *Broker) checkMounts(ctx context.Context, spec *dag.Job) error {
	checked := map[string]bool{}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue
		}
		for k := range t.Inputs {
			in := &t.Inputs[k]
			if in.Mount == dag.Copied && in.Bucket == dag.BucketThere {
				continue
			}
			key := fmt.Sprint(in.URI, " ", in.Mount, in.Bucket)
			if checked[key] {
				continue
			}
			checked[key] = true
			why, hint := b.wrongMount(ctx, in)
			if why != "" {
				return spec.ErrorAt(i, dag.OfFiles, dag.InputField(k), why, hint)
			}
		}
	}
	return nil
}

// wrongMount says why an input cannot be mounted, or its bucket made. An error of a store that may pass is none.
func (b *Broker) wrongMount(ctx context.Context, in *dag.Input) (why, hint string) {
	cannot := func(err any) string { return fmt.Sprintf("%q cannot be mounted: %v", in.URI, err) }
	prefix, err := grant.AsPrefix(in.URI)
	if err != nil {
		return cannot(err), ""
	}
	if store, err := grant.AsPrefix(b.Config.StoreURL); err == nil && in.Mount != dag.Copied &&
		strings.HasPrefix(store, prefix) {
		return cannot("what all jobs keep lies there"), "name a prefix or bucket of your own"
	}
	if b.Data == nil || strings.HasPrefix(prefix, "file:") { // the machine's own folder, which only it knows
		return "", ""
	}
	page, err := b.Data.List(ctx, prefix, "")
	switch {
	case errors.Is(err, grant.ErrNoBucket) && in.Bucket != dag.BucketThere:
		return "", "" // it is made before its machine is bought
	case errors.Is(err, grant.ErrNoBucket):
		return cannot(err), "name a bucket that is there and may be read"
	case errors.Is(err, grant.ErrStore), errors.Is(err, grant.ErrCredentials), errors.Is(err, grant.ErrURI):
		return cannot(err), ""
	case err != nil:
		b.log.Warn("a mount could not be checked", "uri", in.URI, "err", err)
		return "", ""
	case len(page.Objects) == 0 && prefix != in.URI && b.isObject(ctx, in.URI):
		return cannot("it is an object, and what is mounted is a bucket or a folder of one"),
			"leave mount out to have it copied, or name the folder that it lies in"
	case in.Mount == dag.Copied:
		return "", ""
	}
	if err := b.tryLoan(ctx, grant.Loan{Prefix: prefix, Write: in.Mount.Writes()}); err != nil {
		return cannot(err), "leave mount out to have it copied; docs/mounts.md says what is to be set up"
	}
	return "", ""
}

// tryLoan sees whether credentials are lent. An error that may pass is none.
func (b *Broker) tryLoan(ctx context.Context, l grant.Loan) error {
	l.For = b.Config.GrantFor
	_, err := grant.Lend(ctx, b.Data, l)
	for _, lasting := range []error{errors.ErrUnsupported, grant.ErrCredentials, grant.ErrURI} {
		if errors.Is(err, lasting) {
			return err
		}
	}
	if err != nil {
		b.log.Warn("a mount could not be checked", "uri", l.Prefix, "err", err)
	}
	return nil
}

// isObject says whether a URI is that of an object, by a granted request for its first byte.
func (b *Broker) isObject(ctx context.Context, uri string) bool {
	const within = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	grants, err := b.Data.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: within, Range: &grant.Range{Length: 1}})
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

// makeBuckets makes the buckets that a task asks for and that are not there, before a machine is bought for it. Those
// that are removed again are recorded first.
func (b *Broker) makeBuckets(ctx context.Context, job string, t *dag.Task) error {
	for k := range t.Inputs {
		in := &t.Inputs[k]
		if in.Bucket == dag.BucketThere || t.StandIn() || b.Data == nil {
			continue
		}
		bucket, err := grant.BucketOf(in.URI)
		if err != nil {
			return cloud.Errorf("storage", cloud.Invalid, "BadBucket", "%v", err)
		}
		if err := b.makeBucket(ctx, job, bucket, in.Bucket); err != nil {
			kind := cloud.Transient
			if errors.Is(err, grant.ErrNoBucket) || errors.Is(err, errors.ErrUnsupported) ||
				errors.Is(err, grant.ErrCredentials) {
				kind = cloud.Invalid
			}
			return cloud.Errorf("storage", kind, "NoBucket", "%v", err)
		}
	}
	return nil
}

func (b *Broker) makeBucket(ctx context.Context, job, bucket string, life dag.Bucket) error {
	key := record.BucketKey(bucket)
	_, err := b.Data.List(ctx, bucket, "")
	there := err == nil
	if err != nil && !errors.Is(err, grant.ErrNoBucket) {
		return err
	}
	err = b.Transact(ctx, events.FnProvision, "bucket/"+job+"/"+bucket, false, func(u *unit.Unit) error {
		was, known, err := book.Get[record.Bucket](u, key)
		if err != nil {
			return err
		}
		return u.Apply(decideBucket(was, known, there, bucket, job, life, u.Now))
	})
	if err != nil || there {
		return err
	}
	return grant.MakeBucket(ctx, b.Data, bucket)
}

// decideBucket notes for whom a bucket is made that is removed again. One that was there before, with no note of it, is
// the user's; one that some job wants to stay does.
func decideBucket(was record.Bucket, known, there bool, bucket, job string, life dag.Bucket,
	now time.Time) (d record.Decision) {
	switch {
	case life != dag.BucketTemporary:
		if known {
			d.Del(record.BucketKey(bucket))
		}
	case known && !slices.Contains(was.Jobs, job):
		was.Jobs = append(slices.Clone(was.Jobs), job)
		d.Put(record.BucketKey(bucket), was)
	case !known && !there:
		d.Put(record.BucketKey(bucket), record.Bucket{URI: bucket, Jobs: []string{job}, At: now})
	}
	return d
}

// RemoveBuckets removes the buckets that were made for jobs which have all ended. Reconcile does it, and so may a host
// that is about to stop.
func (b *Broker) RemoveBuckets(ctx context.Context, cause string) error {
	if b.Data == nil {
		return nil
	}
	u := b.NewUnit(ctx, events.FnReconcile)
	made, err := book.List[record.Bucket](u, record.PartBuckets, "", 0)
	errs := []error{err}
	for _, bucket := range made {
		over, err := allOver(u, bucket.Jobs)
		if err == nil && over {
			err = grant.RemoveBucket(ctx, b.Data, bucket.URI)
		}
		if err == nil && over {
			err = b.Transact(ctx, events.FnReconcile, cause+"/bucket/"+bucket.URI, false, func(u *unit.Unit) error {
				now, found, err := book.Get[record.Bucket](u, record.BucketKey(bucket.URI))
				if err != nil || !found || len(now.Jobs) != len(bucket.Jobs) { // another job has come
					return record.OrSkip(err)
				}
				var d record.Decision
				d.Del(record.BucketKey(bucket.URI))
				return u.Apply(d)
			})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// allOver says whether jobs have ended, with all of their machines gone.
func allOver(u *unit.Unit, jobs []string) (bool, error) {
	for _, id := range jobs {
		job, found, err := book.Get[record.Job](u, record.JobKey(id))
		if err != nil || found && !job.State.Over() {
			return false, err
		}
	}
	return true, nil
}
