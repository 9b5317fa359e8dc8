package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// provision buys capacity for admitted tasks, and releases capacity that is not needed any more (paper, section
// Provisioner).
func (b *Functions) provision(ctx context.Context, e events.Event) error {
	switch data := e.Data.(type) {
	case events.TaskAdmitted:
		return b.buy(ctx, e.ID, data)
	case events.TaskSucceeded:
		if data.Cluster == "" {
			return nil // its gang's work was done before it got a cluster
		}
		return b.release(ctx, e.ID, data.Cluster)
	case events.TaskFailed:
		if data.Cluster == "" {
			return nil // it never had a cluster
		}
		if kept, err := b.kept(ctx, data.Cluster); err != nil || kept {
			return err
		}
		return b.release(ctx, e.ID, data.Cluster)
	case events.ClusterLost:
		return b.release(ctx, e.ID, data.Cluster)
	case events.ClusterRelease:
		return b.release(ctx, e.ID, data.Cluster)
	case events.DAGEnding:
		return b.releaseJob(ctx, e.ID, data)
	default:
		return unexpected(events.FnProvision, e.Data)
	}
}

// buy commits the intent, calls the cloud, and commits the outcome. After a crash in between, a redelivery of the
// event or reconcile continues: a launch with the same cluster name is the same launch.
func (b *Functions) buy(ctx context.Context, cause string, e events.TaskAdmitted) error {
	var intent attempt.Buying
	proceed := false
	err := b.txns.Transact(ctx, events.FnProvision, cause+"/intent", false, func(u *txn.Unit) error {
		var err error
		if intent, err = attempt.LoadBuying(u, e.Job, e.Task, e.Attempt); err != nil {
			return err
		}
		b.quota.see(intent.QuotaBlockedUntil())
		var d record.Decision
		d, proceed = attempt.DecideIntent(&intent, b.cfg, u.Now)
		if err := u.Apply(d); err != nil || proceed || intent.Attempt.Outcome == "" || !intent.Attempt.Assigned() {
			return err
		}
		return b.pools.Unassign(u, intent.Attempt.Offer.Region, record.ClusterID(e.Job, e.Task, e.Attempt),
			intent.Attempt.Hosts)
	})
	if err != nil || !proceed {
		return err
	}
	// all tries have failed, but a crash came before the refusal was recorded
	if intent.Cluster.Tries >= b.cfg.LaunchTries {
		return b.commitRefusal(ctx, cause, e, attempt.Refusal(intent.Cluster))
	}
	var machines []cloud.Machine
	launchErr := Keeper{Txns: b.txns, Data: b.ports.Data}.Make(ctx, intent.Job.ID, intent.Spec)
	if launchErr != nil && cloud.KindOf(launchErr) != cloud.Invalid { // temporary, and no location is the cause
		return fmt.Errorf("%w: launch of %s: %w", errAgain, intent.Cluster.ID, launchErr)
	}
	if launchErr == nil && intent.Cluster.Offer.Service != "" {
		machines, launchErr = b.createPlace(ctx, intent)
	} else if launchErr == nil {
		spec, err := b.launchSpec(intent)
		if err != nil {
			return err
		}
		machines, launchErr = b.launch(ctx, spec)
	}
	if launchErr != nil && ctx.Err() != nil {
		return launchErr // this call's context has ended; the cloud did not fail
	}
	err = b.commitLaunch(ctx, cause, e, intent, machines, launchErr)
	b.placed(intent, cmp.Or(err, launchErr))
	return err
}

// placed makes the host watch the place of an attempt on a service at once.
func (b *Functions) placed(intent attempt.Buying, err error) {
	if err == nil && intent.Cluster.Offer.Service != "" && b.ports.Placed != nil {
		b.ports.Placed()
	}
}

// launch launches a cluster on the offer's cloud.
func (b *Functions) launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c, ok := b.ports.Clouds[spec.Offer.Cloud]
	if !ok {
		return nil, cloud.Errorf(spec.Offer.Cloud, cloud.Auth, cloud.CodeNoCredentials,
			"no credentials for this cloud are configured")
	}
	machines, err := c.Launch(ctx, spec)
	if err != nil {
		err = brief{err}
	}
	return machines, err
}

// brief is a cloud's error whose text is cut to the length that is stored.
type brief struct{ error }

func (b brief) Error() string { return readable.ClipFailure(b.error.Error()) }
func (b brief) Unwrap() error { return b.error }

// launchSpec returns the request for the machines of an intended cluster. Each machine gets its own token, which is
// valid for its first hello.
func (b *Functions) launchSpec(st attempt.Buying) (cloud.LaunchSpec, error) {
	spec := cloud.LaunchSpec{
		Cluster: st.Cluster.ID, Offer: st.Cluster.Offer, Nodes: len(st.Cluster.Nodes),
		MaxUSDPerHour: max(st.Cluster.MaxUSD-st.Attempt.SurchargeUSD, 0), DiskGiB: st.Spec.DiskGiB(),
		Bootstrap: cloud.Bootstrap{Endpoint: b.cfg.Endpoint},
		Labels: map[string]string{
			"job": st.Job.ID, "task": st.Spec.Name, "queue": st.Job.Queue,
			"attempt": fmt.Sprint(st.Attempt.Number),
		},
	}
	if r := attempt.Alternative(st.Spec, st.Cluster.Offer); r != nil {
		spec.Image, spec.Container = r.Machine(), r.Container()
	}
	spec.Rules, spec.KnownBy = st.Rules()
	// The times come from the intent, so that a repeated launch request is identical.
	expires := st.Cluster.Intended.Add(b.cfg.TokenFor + 2*record.TimeOn(st.Spec, st.Cluster.Offer))
	claims := wire.Claims{Job: st.Job.ID, Cluster: st.Cluster.ID, Expires: expires, Boot: true}
	tokens := make([]string, spec.Nodes+1)
	for rank := range tokens {
		if claims.Rank = rank; rank == spec.Nodes {
			claims.Rank, claims.Ranks = 0, spec.Nodes
		}
		token, err := b.ports.Tokens(claims)
		if err != nil {
			return spec, fmt.Errorf("broker: token for %s: %w", st.Cluster.ID, err)
		}
		tokens[rank] = token
	}
	spec.Bootstrap.Tokens, spec.Bootstrap.Any = tokens[:spec.Nodes:spec.Nodes], tokens[spec.Nodes]
	return spec, nil
}

// errAgain makes the queue deliver the event again after its back-off.
var errAgain = errors.New("broker: will be retried")

// commitLaunch commits the outcome of a launch. It counts the last failure before it terminates machines that may
// have been bought, because the cluster's name cannot be launched again afterwards.
func (b *Functions) commitLaunch(ctx context.Context, cause string, e events.TaskAdmitted, intent attempt.Buying,
	machines []cloud.Machine, launchErr error) error {
	var refusal error
	again := false
	err := b.txns.Transact(ctx, events.FnProvision, cause, false, func(u *txn.Unit) error {
		st, err := intent.Reload(u)
		if err != nil {
			return err
		}
		again, refusal = false, nil
		if !st.Exists || st.Cluster.State != record.ClusterLaunching {
			return record.ErrSkip // another process has released it
		}
		if launchErr != nil {
			var d record.Decision
			if d, again, refusal = attempt.DecideFailed(st, b.cfg, launchErr); len(d.Writes) == 0 {
				return record.ErrSkip
			}
			return u.Apply(d)
		}
		if st.Cluster.Tries >= b.cfg.LaunchTries {
			refusal = attempt.Refusal(st.Cluster) // another process has given it up, and ends the bought machines
			return record.ErrSkip
		}
		market, err := attempt.MarketOf(u, st.Attempt)
		if err != nil {
			return err
		}
		return u.Apply(attempt.DecideBought(st, machines, market, u.Now))
	})
	switch {
	case err != nil:
		return err
	case again:
		return fmt.Errorf("%w: launch of %s: %w", errAgain, record.ClusterID(e.Job, e.Task, e.Attempt), launchErr)
	case refusal != nil:
		return b.commitRefusal(ctx, cause, e, refusal)
	}
	return nil
}

// commitRefusal ends an attempt that the cloud did not launch. It first terminates machines that may have been
// bought. Then it blocks the location and requests a new plan for the remaining tasks.
func (b *Functions) commitRefusal(ctx context.Context, cause string, e events.TaskAdmitted, launchErr error) error {
	id := record.ClusterID(e.Job, e.Task, e.Attempt)
	kind := cloud.KindOf(launchErr)
	// A cloud that refuses the broker's calls must not delay failover. reconcile finds the machines that it may have
	// launched, but only in clouds that the deployment has.
	err := b.terminate(ctx, id, launchErr)
	if errors.Is(err, errNoCloud) || err != nil && kind != cloud.Auth && cloud.KindOf(err) != cloud.Auth {
		return fmt.Errorf("%w: terminate %s after %w: %w", errAgain, id, launchErr, err)
	}
	return b.txns.Transact(ctx, events.FnProvision, cause+"/refused", false, func(u *txn.Unit) error {
		st, err := attempt.LoadRefused(u, e.Job, e.Task, e.Attempt)
		if err != nil {
			return err
		}
		if kind == cloud.Quota {
			b.quota.see(u.Now.Add(b.cfg.BlockFor[kind]))
		}
		return u.Apply(attempt.DecideRefused(st, b.cfg, launchErr, u.Now))
	})
}

// terminate ends a cluster that may have been bought although the launch was not answered.
func (b *Functions) terminate(ctx context.Context, id string, refused error) error {
	u := b.txns.NewUnit(ctx, events.FnProvision)
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(id))
	if err != nil || !found || !attempt.MayHaveMachines(cl, refused) && !cl.Assigned() {
		return err
	}
	return b.terminateOnCloud(ctx, cl)
}

// errNoCloud means that machines cannot be ended, because the deployment has no credentials for their cloud any more.
var errNoCloud = errors.New("no credentials any more")

// terminateOnCloud terminates a cluster in its cloud. If the deployment no longer has that cloud, the machines are
// still billed, so the cluster's record stays until the cloud is configured again.
func (b *Functions) terminateOnCloud(ctx context.Context, cl record.Cluster) error {
	if name := cl.Offer.Service; name != "" {
		if s, ok := b.ports.Services[name]; ok {
			return s.End(ctx, attempt.PlaceOn(b.cfg, cl))
		}
		return fmt.Errorf("%w for %s: the place of %s may still run", errNoCloud, name, cl.ID)
	}
	c, ok := b.ports.Clouds[cl.Offer.Cloud]
	switch {
	case ok:
		return c.Terminate(ctx, cl.ID)
	case b.ports.NoOthers:
		return nil
	}
	return fmt.Errorf("%w for %s: its machines of %s may still run; deploy with that cloud", errNoCloud, cl.Offer.Cloud,
		cl.ID)
}
