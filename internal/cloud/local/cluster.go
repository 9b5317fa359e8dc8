package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// cluster is a cluster that was launched and is not terminated yet.
type cluster struct {
	host     *Host
	key      clusterKey
	dir      string
	machines []*machine

	op     sync.Mutex // held while machines are started, interrupted or ended; before Host.mu
	stored bool       // rec is on disk; guarded by op
	rec    *record    // immutable except Taken, which Host.mu guards

	ctx    context.Context // of its interruptions
	cancel context.CancelFunc
}

func (h *Host) newCluster(key clusterKey, rec *record) *cluster {
	cl := &cluster{host: h, key: key, rec: rec, dir: filepath.Join(h.clustersDir(), key.dirName())}
	for rank := range rec.Machines {
		cl.machines = append(cl.machines,
			&machine{cluster: cl, rank: rank, dir: filepath.Join(cl.dir, strconv.Itoa(rank))})
	}
	return cl
}

// list returns the machines. Host.mu is held.
func (cl *cluster) list() []cloud.Machine {
	out := make([]cloud.Machine, len(cl.machines))
	for i, m := range cl.machines {
		out[i] = m.describe()
	}
	return out
}

// store writes the record. cl.op is held.
func (cl *cluster) store() error {
	if err := os.MkdirAll(cl.dir, 0o700); err != nil {
		return err
	}
	cl.host.mu.Lock()
	rec := *cl.rec
	rec.Machines = append([]machineRecord(nil), cl.rec.Machines...)
	cl.host.mu.Unlock()
	if err := writeJSON(filepath.Join(cl.dir, recordName), rec); err != nil {
		return err
	}
	cl.stored = true
	return nil
}

// launch starts the machines of a cluster. If an earlier launch with its name exists, launch finds those machines and
// starts the missing ones.
func (h *Host) launch(ctx context.Context, cloudName string, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if err := check(cloudName, spec); err != nil {
		return nil, err
	}
	key := clusterKey{cloudName, spec.Cluster}
	cl, verdict, err := h.claim(ctx, key, spec)
	if err != nil {
		return nil, err
	}
	cl.op.Lock()
	defer cl.op.Unlock()
	if err := h.current(cl); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		h.forget(cl)
		return nil, err
	}
	if err := cl.begin(ctx, spec); err != nil {
		return nil, err
	}
	if verdict.Unseen {
		return nil, unseenError(ctx, verdict)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return cl.list(), nil
}

func check(cloudName string, spec cloud.LaunchSpec) error {
	invalid := func(format string, args ...any) error {
		return cloud.Errorf(cloudName, cloud.Invalid, "InvalidParameter", format, args...)
	}
	switch {
	case !validName(spec.Cluster):
		return invalid("invalid cluster name %.300q", spec.Cluster)
	case spec.Offer.Cloud != cloudName:
		return invalid("the offer is from cloud %q", spec.Offer.Cloud)
	case spec.Nodes < 1:
		return invalid("%d machines", spec.Nodes)
	case len(spec.Bootstrap.Tokens) != spec.Nodes:
		return invalid("%d tokens for %d machines", len(spec.Bootstrap.Tokens), spec.Nodes)
	case spec.Bootstrap.Endpoint == "":
		return invalid("no endpoint")
	}
	return nil
}

// unseenError is the error that the caller of a launch gets although it succeeded.
func unseenError(ctx context.Context, v Verdict) error {
	switch {
	case v.Hang:
		<-ctx.Done()
		return ctx.Err()
	case v.Err != nil:
		return v.Err
	}
	return cloud.Errorf("", cloud.Transient, "ResponseLost", "the answer was lost")
}

// claim returns the cluster with a name, or a new one if the behaviour allows it and there is room.
func (h *Host) claim(ctx context.Context, key clusterKey, spec cloud.LaunchSpec) (*cluster, Verdict, error) {
	h.mu.Lock()
	cl, err := h.lookup(key)
	if err == nil {
		err = h.ctx.Err() // closed
	}
	h.mu.Unlock()
	if cl != nil || err != nil {
		return cl, Verdict{}, err
	}
	now := h.cfg.Clock.Now()
	r := Request{Offer: spec.Offer, Cluster: spec.Cluster, Nodes: spec.Nodes, Labels: spec.Labels, Now: now,
		Since: now.Sub(h.start)}
	verdict, err := h.judge(ctx, r)
	if err != nil {
		return nil, verdict, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if cl, err := h.lookup(key); cl != nil || err != nil { // another call was faster
		return cl, Verdict{}, err
	}
	if n := h.living(); n+spec.Nodes > h.cfg.MaxMachines {
		err := cloud.Errorf(key.Cloud, cloud.Quota, "LocalMachinesLimit",
			"local machines limit: %d running, %d more requested, %d allowed", n, spec.Nodes, h.cfg.MaxMachines)
		err.Class, err.RetryAfterFull = quotas.Account, limitFor
		return nil, verdict, err
	}
	r.Now = h.cfg.Clock.Now()
	r.Since = r.Now.Sub(h.start)
	cl = h.newCluster(key, h.plan(key, r))
	cl.ctx, cl.cancel = context.WithCancel(h.ctx)
	if err := h.remember(); err != nil {
		return nil, verdict, err
	}
	h.clusters[key] = cl
	return cl, verdict, nil
}

// lookup finds a cluster, or fails if it was terminated. The caller holds h.mu.
func (h *Host) lookup(key clusterKey) (*cluster, error) {
	if h.terminated[key] {
		return nil, cloud.Errorf(key.Cloud, cloud.Invalid, "ClusterTerminated", "cluster %s was terminated",
			key.Cluster)
	}
	return h.clusters[key], nil
}

// forget drops a cluster of which nothing is on disk yet. The caller holds cl.op.
func (h *Host) forget(cl *cluster) {
	if cl.stored {
		return
	}
	cl.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clusters, cl.key)
}

// living counts the machines that have not ended. h.mu is held.
func (h *Host) living() int {
	n := 0
	for _, cl := range h.clusters {
		for _, m := range cl.machines {
			if !m.ended {
				n++
			}
		}
	}
	return n
}

// plan makes the record of a new cluster.
func (h *Host) plan(key clusterKey, r Request) *record {
	rec := &record{Cluster: key.Cluster, Offer: r.Offer, Labels: maps.Clone(r.Labels), Launched: r.Now}
	for rank := range r.Nodes {
		m := machineRecord{ID: machineID(h.cfg.Dir, key, rank)}
		if !h.cfg.Outside {
			m.Address = address(h.cfg.Dir, key, rank)
		}
		if p, ok := h.cfg.Behaviour.Preemption(r, rank); ok {
			m.TakenAt, m.Notice = p.At, p.Notice
		}
		rec.Machines = append(rec.Machines, m)
	}
	return rec
}

// current checks that cl is still the cluster with its name: it was neither terminated nor dropped during the wait
// for its lock. The caller holds cl.op.
func (h *Host) current(cl *cluster) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, err := h.lookup(cl.key)
	if err == nil && now != cl {
		err = cloud.Errorf(cl.key.Cloud, cloud.Transient, "LaunchFailed", "an earlier launch of cluster %s failed",
			cl.key.Cluster)
	}
	return err
}

// begin writes the record and starts every machine. If it fails, nothing is left. The caller holds cl.op.
func (cl *cluster) begin(ctx context.Context, spec cloud.LaunchSpec) error {
	err := cl.beginAll(spec)
	if err == nil {
		return nil
	}
	// All or none. If ending fails too, the cluster stays on record, and can be terminated like any other.
	if e := cl.end(context.WithoutCancel(ctx), 0); e != nil {
		return errors.Join(err, e)
	}
	return err
}

func (cl *cluster) beginAll(spec cloud.LaunchSpec) error {
	first, boot := !cl.stored, spec.Bootstrap
	var extra []string
	if f := cl.host.cfg.Extra; f != nil {
		extra = f(spec)
	}
	if first {
		if err := cl.store(); err != nil {
			return err
		}
	}
	for i, m := range cl.machines {
		if i >= len(boot.Tokens) {
			break
		}
		if err := m.start(boot.Endpoint, boot.Tokens[i], extra); err != nil {
			return startFailure(cl.key.Cloud, fmt.Errorf("start machine %s: %w", m.record().ID, err))
		}
	}
	if first {
		cl.expect()
	}
	return nil
}

// startFailure sets the kind of an error when a program could not be started. It can be retried unless the program is
// missing or not allowed.
func startFailure(cloudName string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return &cloud.Error{Kind: cloud.Invalid, Cloud: cloudName, Code: "AgentProgram", Message: err.Error(), Err: err}
	}
	return err
}

// terminate ends a cluster for good.
func (h *Host) terminate(ctx context.Context, key clusterKey) error {
	if !validName(key.Cluster) {
		return nil // no cluster can have this name
	}
	h.mu.Lock()
	err := h.bury(key)
	cl := h.clusters[key]
	if cl != nil && err == nil {
		cl.cancel()
		for _, m := range cl.machines {
			m.ending = true
		}
	}
	h.mu.Unlock()
	if cl == nil || err != nil {
		return err
	}
	cl.op.Lock()
	defer cl.op.Unlock()
	return cl.end(ctx, h.cfg.Grace)
}

// end ends every machine and forgets the cluster. cl.op is held.
func (cl *cluster) end(ctx context.Context, grace time.Duration) error {
	cl.cancel()
	var all errgroup.Group
	all.SetLimit(16)
	for _, m := range cl.machines {
		all.Go(func() error { return m.stop(ctx, grace) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if err := removeDir(cl.dir); err != nil {
		return err
	}
	h := cl.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clusters[cl.key] == cl {
		delete(h.clusters, cl.key)
	}
	return nil
}

// limitFor is the time for which nothing is launched after the limit of local machines was reached. It is short,
// because a retry costs nothing.
const limitFor = time.Minute
