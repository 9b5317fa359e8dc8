package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Cloud is the cloud driver for pools. Sessions have already assigned the machines of a cluster, so a launch takes no
// time. The driver buys nothing and contacts no machine. Machines call the broker.
type Cloud struct{ b *Keeper }

var _ cloud.Cloud = Cloud{}

// Name implements cloud.Cloud.
func (Cloud) Name() string { return apitypes.PoolCloud }

// Launch implements cloud.Cloud. It confirms that the session's assignments of the cluster exist. If some are
// missing, the cluster was terminated, and the task must be scheduled again.
func (c Cloud) Launch(ctx context.Context, spec cloud.LaunchSpec) (found []cloud.Machine, err error) {
	defer typed(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.Cluster == "" || spec.Nodes < 1 || spec.Offer.Cloud != apitypes.PoolCloud || spec.Offer.Region == "" ||
		len(spec.Bootstrap.Tokens) != spec.Nodes {
		return nil, cloud.Errorf(apitypes.PoolCloud, cloud.Invalid, "BadRequest",
			"a cluster of a pool has a name, a pool, nodes and a token for each")
	}
	if found, err = c.list(ctx, spec.Offer.Region, spec.Cluster); err != nil {
		return nil, err
	}
	if len(found) != spec.Nodes {
		return nil, cloud.Errorf(apitypes.PoolCloud, cloud.Invalid, "NotAssigned",
			"%d machines of %s are assigned to %s, not %d", len(found), spec.Offer.Region, spec.Cluster, spec.Nodes)
	}
	for i := range found {
		found[i].Offer = spec.Offer
	}
	return found, nil
}

// Terminate implements cloud.Cloud. It removes the cluster's assignments. The machines learn of it at their next
// call, and get no other order before that.
func (c Cloud) Terminate(ctx context.Context, cluster string) (err error) {
	defer typed(&err)
	pools, err := c.poolsOf(ctx, cluster)
	if err != nil {
		return err
	}
	for _, name := range pools {
		err := c.b.txns.Transact(ctx, fnPool, "free/"+cluster, false, func(u *txn.Unit) error {
			return c.b.Unassign(u, name, cluster, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// poolsOf returns the pools in which a cluster may be: the one in its record, or all pools. For an empty cluster it
// returns all pools, without a read of the store if they were read recently.
func (c Cloud) poolsOf(ctx context.Context, cluster string) ([]string, error) {
	u := c.b.txns.NewUnit(ctx, fnPool)
	if cluster == "" {
		err := c.b.lookForPools(ctx, u.Now)
		return c.b.known.names(), err
	}
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(cluster))
	if err != nil {
		return nil, err
	}
	if found {
		return []string{cl.Offer.Region}, nil
	}
	pools, err := recordcache.List[record.Pool](u, record.PartPools, "", 0)
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Name
	}
	return names, err
}

// Machines implements cloud.Cloud. If neither a machine nor its agents have called for too long, the machine is
// listed as terminated. Assignments whose attempt has not been launched are listed only if the caller names their
// cluster.
func (c Cloud) Machines(ctx context.Context, cluster string) (all []cloud.Machine, err error) {
	defer typed(&err)
	pools, err := c.poolsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for _, name := range pools {
		found, err := c.list(ctx, name, cluster)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if cluster != "" {
		return all, nil
	}
	return c.intended(ctx, all)
}

// list reads the assignments in a pool, of one cluster or of all, sorted by cluster and rank.
func (c Cloud) list(ctx context.Context, pool, cluster string) ([]cloud.Machine, error) {
	parts, err := c.b.Parts(ctx, pool)
	now, cfg := c.b.txns.Now(), c.b.txns.Config
	lostAfter := cfg.SilentFor
	for _, part := range parts {
		for _, seen := range part.Seen {
			if now.Sub(seen) <= cfg.Pool.LostAfter { // the endpoint is open
				lostAfter = cfg.Pool.LostAfter
			}
		}
	}
	var out []cloud.Machine
	for _, part := range parts {
		for _, m := range part.Machines {
			for _, use := range m.Uses {
				if cluster != "" && use.Cluster != cluster {
					continue
				}
				x := cloud.Machine{
					ID: m.ID, Cluster: use.Cluster, Rank: use.Rank, State: cloud.Running, Launched: use.Since,
					Offer: apitypes.Offer{Cloud: apitypes.PoolCloud, Region: pool, InstanceType: m.Type,
						Accelerator: use.Hold.Accelerator, AccelCount: use.Hold.Accelerators},
				}
				// A worker is removed from the pool by the code that ends it.
				if !m.IsWorker() && now.Sub(part.Seen[m.ID]) > lostAfter {
					x.State, x.Reason = cloud.Terminated, "not heard of since "+part.Seen[m.ID].Format(time.RFC3339)
				}
				out = append(out, x)
			}
		}
	}
	slices.SortFunc(out, func(x, y cloud.Machine) int {
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.Rank, y.Rank))
	})
	return out, err
}

// intended removes the assignments of attempts that are admitted but not launched. A call of an agent counts as a
// call of its machine.
func (c Cloud) intended(ctx context.Context, all []cloud.Machine) ([]cloud.Machine, error) {
	u := c.b.txns.NewUnit(ctx, fnPool)
	var clusters []store.Key
	for _, m := range all {
		clusters = append(clusters, record.ClusterKey(m.Cluster))
	}
	if err := u.Preload(clusters...); err != nil {
		return nil, err
	}
	out := all[:0]
	for _, m := range all {
		cl, waits, err := attemptOf(u, m.Cluster)
		if err != nil {
			return nil, err
		}
		if m.Rank < len(cl.Nodes) && u.Now.Sub(cl.Nodes[m.Rank].Seen) <= c.b.txns.Config.Pool.LostAfter {
			m.State, m.Reason = cloud.Running, ""
		}
		if !waits {
			out = append(out, m)
		}
	}
	return out, nil
}

// attemptOf loads a cluster, which is zero if it has no record. waits means that its attempt has not been launched
// yet.
func attemptOf(u *txn.Unit, id string) (cl record.Cluster, waits bool, err error) {
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(id))
	task, number, ok := record.ClusterAttempt(id)
	if err != nil || found || !ok {
		return cl, false, err
	}
	a, found, err := recordcache.Get[apitypes.Attempt](u, record.AttemptKey(record.ClusterJob(id), task, number))
	return cl, found && a.Outcome == "", err
}

// Unassign removes the assignments of a cluster from a pool: from the given hosts, or from all machines if hosts is
// empty.
func (b *Keeper) Unassign(u *txn.Unit, pool, cluster string, hosts []string) error {
	p, found, err := recordcache.Get[record.Pool](u, record.PoolKey(pool))
	if err != nil || !found {
		return err
	}
	parts, err := partitions(u, p, hosts...)
	if err != nil {
		return err
	}
	var d record.Decision
	for _, part := range parts {
		changed := false
		for i := range part.Machines {
			m := &part.Machines[i]
			before := len(m.Uses)
			m.Uses = slices.DeleteFunc(m.Uses, func(use record.PoolUse) bool { return use.Cluster == cluster })
			changed = changed || len(m.Uses) != before
		}
		if changed {
			d.Put(record.PartitionKey(pool, part.Index), part)
		}
	}
	return u.Apply(d)
}

// typed converts an error of the store to a *cloud.Error.
func typed(err *error) {
	var is *cloud.Error
	if *err == nil || errors.As(*err, &is) {
		return
	}
	e := cloud.Errorf(apitypes.PoolCloud, cloud.Transient, "Store", "%v", *err)
	if errors.Is(*err, store.ErrThrottled) {
		e.Kind = cloud.Throttled
	}
	e.Err = *err
	*err = e
}
