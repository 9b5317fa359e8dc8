package broker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// scopeOf returns the rights of an agent on the named objects during its attempt. It fails with record.ErrGone when
// the attempt has ended.
func (b *Agents) scopeOf(u *txn.Unit, c wire.Claims, named ...string) (s grant.Scope, err error) {
	if b.ports.Data == nil {
		return s, fmt.Errorf("%w: this broker grants nothing", grant.ErrStore)
	}
	cl, err := ownMember(u, c)
	if err == nil && cl.Outcome != "" {
		err = record.ErrGone
	}
	if err != nil {
		return s, err
	}
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err == nil && !found {
		err = record.ErrGone
	}
	if err != nil {
		return s, err
	}
	return attempt.Scope(u, b.cfg, job, cl, c.Rank, named)
}

// Grant signs the requests that an agent wants to make, for Config.GrantFor. If one of them is not allowed, Grant
// refuses all with an error of package grant. It writes nothing except a sign of life, if others are missing.
func (b *Agents) Grant(ctx context.Context, c wire.Claims, wants ...grant.Want) ([]grant.Grant, error) {
	named := make([]string, len(wants))
	wants = slices.Clone(wants)
	for i := range wants {
		named[i], wants[i].For = wants[i].URI, b.cfg.GrantFor
	}
	u := b.txns.NewUnit(ctx, fnAgent)
	scope, err := b.scopeOf(u, c, named...)
	if err != nil {
		return nil, err
	}
	grants, err := scope.Over(b.ports.Data).Sign(ctx, wants...)
	return grants, b.answer(u, c, err)
}

// answer counts a successful call for data as a sign of life, like recordCall. Otherwise it returns the call's error.
func (b *Agents) answer(u *txn.Unit, c wire.Claims, err error) error {
	if err != nil {
		return err
	}
	cl, err := ownCluster(u, c)
	if err != nil {
		return err
	}
	return b.recordCall(u, c, cl)
}

// Lend returns credentials for the mounts of an agent's task. Each is for one prefix, and valid for about as long as
// grants. Lend writes nothing except a sign of life, if others are missing.
func (b *Agents) Lend(ctx context.Context, c wire.Claims, loans ...grant.Loan) ([]grant.Credentials, error) {
	u := b.txns.NewUnit(ctx, fnAgent)
	scope, err := b.scopeOf(u, c)
	if err != nil {
		return nil, err
	}
	cl, err := ownMember(u, c)
	if err != nil {
		return nil, err
	}
	job, _, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err != nil {
		return nil, err
	}
	spec, err := attempt.SpecOf(u, job, cl)
	if err != nil {
		return nil, err
	}
	out := make([]grant.Credentials, len(loans))
	for i, l := range loans {
		if err := attempt.CheckLoan(&spec.Tasks[cl.Task], l); err != nil {
			return nil, err
		}
		l.For = b.cfg.GrantFor
		if out[i], err = grant.Lend(ctx, scope.Over(b.ports.Data), l); err != nil {
			return nil, err
		}
	}
	return out, b.answer(u, c, nil)
}

// List lists the objects below a prefix that an agent may read, one page at a time.
func (b *Agents) List(ctx context.Context, c wire.Claims, prefix, after string) (grant.Page, error) {
	u := b.txns.NewUnit(ctx, fnAgent)
	scope, err := b.scopeOf(u, c, prefix)
	if err != nil {
		return grant.Page{}, err
	}
	page, err := scope.Over(b.ports.Data).List(ctx, prefix, after)
	return page, b.answer(u, c, err)
}

// BeginUpload begins a multipart upload for an agent. The upload is recorded before the agent gets its ID, so every
// upload that can have parts is recorded. A crash in between leaves an upload without parts. That costs nothing, and
// the bucket's lifecycle rule removes it.
func (b *Agents) BeginUpload(ctx context.Context, c wire.Claims, uri string) (upload string, err error) {
	scope, err := b.scopeOf(b.txns.NewUnit(ctx, fnAgent), c, uri)
	if err != nil {
		return "", err
	}
	data := scope.Over(b.ports.Data)
	if upload, err = data.Begin(ctx, uri); err != nil {
		return "", err
	}
	err = b.txns.Transact(ctx, fnAgent, "upload/"+c.Cluster, false, func(u *txn.Unit) error {
		if _, err := b.scopeOf(u, c, uri); err != nil {
			return err
		}
		cl, err := ownCluster(u, c)
		if err != nil {
			return err
		}
		up := record.Upload{URI: uri, Upload: upload, At: u.Now}
		cl.Nodes = slices.Clone(cl.Nodes)
		cl.Nodes[c.Rank].Seen = u.Now // after an outage of the endpoint, this may be the first call
		var d record.Decision
		d.Put(record.UploadKey(c.Cluster, up), up)
		d.Put(record.ClusterKey(c.Cluster), cl) // otherwise the cluster's end could miss this upload
		return u.Apply(d)
	})
	if err != nil {
		return "", errors.Join(err, data.Abort(context.WithoutCancel(ctx), uri, upload))
	}
	return upload, nil
}

// EndUpload completes an upload. If parts is empty, it aborts the upload. Repeating it changes nothing.
func (b *Agents) EndUpload(ctx context.Context, c wire.Claims, uri, upload string, parts []grant.Uploaded) error {
	u := b.txns.NewUnit(ctx, fnAgent)
	scope, err := b.scopeOf(u, c, uri)
	if err != nil {
		return err
	}
	key := record.UploadKey(c.Cluster, record.Upload{URI: uri, Upload: upload})
	if _, open, err := recordcache.Get[record.Upload](u, key); err != nil || !open {
		return b.answer(u, c, err)
	}
	if data := scope.Over(b.ports.Data); len(parts) > 0 {
		err = b.complete(ctx, key, func() error { return data.Complete(ctx, uri, upload, parts) })
	} else {
		err = data.Abort(ctx, uri, upload)
	}
	if err == nil {
		err = b.uploads.Forget(ctx, c.Cluster, key)
	}
	return b.answer(u, c, err)
}

// complete completes a recorded upload. It commits the intent first. The store may not know the upload or its parts.
// If only this call has tried to complete the upload, complete returns the store's error. Otherwise an earlier call
// has completed it, and its answer was lost.
func (b *Agents) complete(ctx context.Context, key record.Key, act func() error) error {
	note := func(what string, change func(*record.Upload) error) error {
		return b.txns.Transact(ctx, fnAgent, what+"/"+key.Sort, false, func(u *txn.Unit) error {
			up, open, err := recordcache.Get[record.Upload](u, key)
			if err != nil || !open {
				return record.OrSkip(err) // another call has completed or aborted it; the next call reports that
			}
			if err := change(&up); err != nil {
				return err
			}
			var d record.Decision
			d.Put(key, up)
			return u.Apply(d)
		})
	}
	if err := note("completing", func(up *record.Upload) error { up.Completing++; return nil }); err != nil {
		return err
	}
	failed := act()
	if !errors.Is(failed, grant.ErrUpload) {
		return failed
	}
	alone := false
	err := note("not-completed", func(up *record.Upload) error {
		if alone = up.Completing == 1; !alone {
			return record.ErrSkip
		}
		up.Completing = 0
		return nil
	})
	if err == nil && alone {
		err = failed
	}
	return err
}

// keepCheckpoints is the number of checkpoints that are kept: the last one, and the one before, which a process may
// be reading.
const keepCheckpoints = 2

// Prune removes the checkpoints of an agent's task that newer ones have replaced. It removes each manifest before the
// manifest's files, so a concurrent reader finds nothing instead of a part. It fails with ErrGone for an attempt that
// was replaced, because that attempt must not remove the checkpoint from which its successor resumes.
func (b *Agents) Prune(ctx context.Context, c wire.Claims) error {
	u := b.txns.NewUnit(ctx, fnAgent)
	if _, err := b.scopeOf(u, c); err != nil {
		return err
	}
	cl, err := ownCluster(u, c)
	if err != nil {
		return err
	}
	task, _, err := recordcache.Get[record.Task](u, record.TaskKey(cl.Job, cl.Task))
	if err != nil {
		return err
	}
	if task.Attempt != cl.Attempt {
		return record.ErrGone
	}
	job, _, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err != nil {
		return err
	}
	made, _, err := recordcache.Get[apitypes.Attempt](u, record.AttemptKey(cl.Job, cl.Task, cl.Attempt))
	if err != nil {
		return err
	}
	prefixes, err := attempt.Checkpoints(u, b.cfg, job, cl, made.ResumedFrom)
	if err != nil {
		return err
	}
	begun := ""
	if len(cl.Nodes) > 1 { // a late node starts from the same checkpoint as the others
		begun = path.Base(made.ResumedFrom)
	}
	for _, prefix := range prefixes {
		if err := b.removeUpTo(ctx, prefix, task.Checkpoint.Seq-keepCheckpoints, begun); err != nil {
			return err
		}
	}
	return b.answer(u, c, nil)
}

// removeUpTo removes the checkpoints below a prefix whose number is at most seq, except the one named by but.
func (b *Agents) removeUpTo(ctx context.Context, prefix string, seq int, but string) error {
	var manifests, files []string
	if seq <= 0 {
		return nil
	}
	for o, err := range grant.Objects(ctx, b.ports.Data, prefix) {
		if err != nil {
			return err
		}
		rest := strings.TrimPrefix(o.URI, prefix)
		number, _, _ := strings.Cut(rest, "-")
		name, _, _ := strings.Cut(rest, "/")
		if n, err := strconv.Atoi(number); err != nil || n > seq || name == but {
			continue
		}
		if path.Base(rest) == "manifest.json" && strings.Count(rest, "/") == 1 {
			manifests = append(manifests, o.URI)
		} else {
			files = append(files, o.URI)
		}
	}
	for _, uris := range [][]string{manifests, files} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(removeAtOnce)
		for _, uri := range uris {
			group.Go(func() error { return b.ports.Data.Remove(ctx, uri) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

const removeAtOnce = 16
