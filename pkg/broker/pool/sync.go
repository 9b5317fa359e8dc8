package pool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// DefaultMachineType is the type of a machine that says nothing of it.
const DefaultMachineType = "machine"

// check fails with ErrPool, naming the field.
func check(machine string, r wire.PoolReport) error {
	if err := record.CheckName(machine); err != nil {
		return fmt.Errorf("%w: machine: %w", record.ErrPool, err)
	}
	if err := record.CheckName(r.Type); err != nil {
		return fmt.Errorf("%w: type: %w", record.ErrPool, err)
	}
	if len(r.Labels) > record.MaxLabels {
		return fmt.Errorf("%w: labels: there are %d, and can be %d", record.ErrPool, len(r.Labels), record.MaxLabels)
	}
	for k, v := range r.Labels {
		if k == "" || len(k) > record.MaxLabel || len(v) > record.MaxLabel {
			return fmt.Errorf("%w: labels: %.20q is empty or longer than %d characters", record.ErrPool, k,
				record.MaxLabel)
		}
	}
	return record.CheckCapacity(apitypes.Capacity(r.Capacity))
}

// SyncMachine takes in what a machine says that has proved which one it is, and tells it what should run there, but for
// a new token of its own. It may be repeated, lost and overtaken: what it tells is all that should run, not what has
// changed. It fails with ErrGone where the pool is gone or the machine was removed from it, and with ErrPool on a
// report that cannot be.
func (b *Keeper) SyncMachine(ctx context.Context, m wire.PoolClaims,
	r wire.PoolReport) (o wire.PoolOrders, err error) {
	r.Type = cmp.Or(r.Type, DefaultMachineType)
	if err := check(m.Machine, r); err != nil {
		return o, err
	}
	err = b.txns.Transact(ctx, fnPool, "sync/"+m.Pool+"/"+m.Machine, false, func(u *unit.Unit) error {
		return u.Draft(func(d *book.Draft) (err error) {
			s := syncing{cfg: b.txns.Config, tokens: b.tokens, u: d, claims: m, report: r}
			if b.policy != nil && r.Labels[record.LabelWindow] != "" {
				s.window, s.shut = session.WindowClosed(b.policy(ctx), r.Labels, u.Now)
			}
			if err := s.load(); err != nil {
				return err
			}
			o, err = s.decide()
			return err
		}, nil)
	})
	return o, err
}

// poolGone says to a machine that it is in the pool no more. It is an ErrGone.
type poolGone string

func (e poolGone) Error() string { return "pool: " + string(e) }

// Is makes it an ErrGone.
func (poolGone) Is(target error) bool { return target == record.ErrGone }

// syncing is what one report of a machine is decided on.
type syncing struct {
	cfg    record.Config
	tokens func(wire.Claims) (string, error)
	u      *book.Draft
	claims wire.PoolClaims
	report wire.PoolReport

	window string // the time window of the machine, where the policy says that it is shut
	shut   bool

	key, beat store.Key // of the partition, and of when the machine was last heard of

	pool     record.Pool
	part     record.Partition
	seen     record.Beat
	m        *record.PoolMachine // in part
	clusters []record.Cluster    // by use of the machine; empty for one that has no record yet, or no more
	changed  bool                // the partition is to be written
}

func (s *syncing) load() (err error) {
	pool, id := s.claims.Pool, s.claims.Machine
	var found bool
	if s.pool, found, err = book.Get[record.Pool](s.u, record.PoolKey(pool)); err != nil {
		return err
	}
	if !found || s.claims.Joined.Before(s.pool.Created.Truncate(time.Second)) {
		return poolGone("there is no pool " + pool)
	}
	index := s.pool.PartitionOf(id)
	s.key, s.beat = record.PartitionKey(pool, index), record.BeatKey(pool, index, id)
	var lacking error
	s.part, _, err = book.Get[record.Partition](s.u, s.key)
	s.seen, _, lacking = book.Get[record.Beat](s.u, s.beat)
	if err = cmp.Or(err, lacking); err != nil {
		return err
	}
	s.part.Pool, s.part.Index = pool, index
	for _, x := range s.part.Removed {
		if x.ID == id && !s.claims.Joined.After(x.At) {
			return poolGone("machine " + id + " was removed from pool " + pool)
		}
	}
	if err := s.enter(); err != nil {
		return err
	}
	for _, use := range s.m.Uses {
		cl, _, lacking := book.Get[record.Cluster](s.u, record.ClusterKey(use.Cluster))
		s.clusters, err = append(s.clusters, cl), cmp.Or(err, lacking)
	}
	return err
}

// enter takes in what the machine says of itself.
func (s *syncing) enter() error {
	i, found := s.part.Machine(s.claims.Machine)
	r := s.report
	if !found {
		if len(s.part.Machines) >= record.MaxPartition ||
			s.u.Size(s.key) > record.MaxPartitionBytes {
			return fmt.Errorf(
				"%w: partition %d of %s has %d machines, and can have no more: make the pool with more partitions",
				record.ErrPool, s.part.Index, s.pool.Name, len(s.part.Machines))
		}
		s.part.Machines = slices.Insert(s.part.Machines, i, record.PoolMachine{ID: s.claims.Machine, Joined: s.u.Now})
	}
	s.m = &s.part.Machines[i]
	if found && s.m.Type == r.Type && s.m.Capacity == apitypes.Capacity(r.Capacity) && s.m.Leaving == r.Leaving &&
		maps.Equal(s.m.Labels, r.Labels) {
		return nil
	}
	s.m.Type, s.m.Labels, s.m.Capacity, s.m.Leaving = r.Type, r.Labels, apitypes.Capacity(r.Capacity), r.Leaving
	s.changed = true
	return nil
}

// decide ends what the machine says has ended, writes what has changed, and tells what should run.
func (s *syncing) decide() (wire.PoolOrders, error) {
	failed, err := s.losses()
	if err != nil {
		return wire.PoolOrders{}, err
	}
	if failed != "" {
		s.m.Fail(failed, s.cfg.Pool.BlockFor, s.u.Now)
		s.changed = true
	}
	o, err := s.orders()
	if err != nil {
		return o, err
	}
	var d record.Decision
	if s.report.Leaving && len(s.m.Uses) == 0 {
		i, _ := s.part.Machine(s.claims.Machine)
		s.part.Machines = slices.Delete(s.part.Machines, i, i+1)
		d.Put(s.key, s.part)
		d.Del(s.beat)
		return o, s.u.Apply(d)
	}
	if s.changed {
		d.Put(s.key, s.part)
		d.Hold(record.PoolKey(s.pool.Name)) // nothing joins what is being removed
	}
	if s.changed || s.u.Now.Sub(s.seen.At) >= s.cfg.Pool.Beat {
		d.Put(s.beat, record.Beat{At: s.u.Now})
	}
	return o, s.u.Apply(d)
}

// lossesMost bounds the attempts that one report ends, so that they fit a transaction; the next report ends more.
const lossesMost = 8

// losses ends the attempts of which the machine says that their agents have ended, and has those save their work that a
// machine is about to leave. It returns why the machine is no good, if it has failed to bring one up.
func (s *syncing) losses() (failed string, err error) {
	n := 0
	for i, use := range s.m.Uses {
		cl := &s.clusters[i]
		if err := s.letGo(cl, use); err != nil {
			return failed, err
		}
		if cl.State == "" || cl.Outcome != "" || cl.State == record.ClusterReleasing || n == lossesMost {
			continue
		}
		node := &cl.Nodes[use.Rank]
		at := s.ended(use)
		if node.Done || node.Stopped || at < 0 && !s.emptied() {
			continue // it has told the end of its part itself, or has not ended
		}
		l, found, err := attempt.LoadLosing(s.u, cl.ID)
		if err != nil || !found {
			return failed, err
		}
		d := attempt.DecideVacate(l, s.cfg, s.vacating(), s.u.Now)
		if at >= 0 {
			reason := fmt.Sprintf("its agent on machine %s has ended: %s", s.claims.Machine,
				record.Clip(s.report.Ended[at].Reason))
			if node.Address == "" {
				failed = reason
				d = attempt.DecideLost(l, apitypes.OutcomeLost, reason, s.u.Now)
			} else {
				d = attempt.DecideSilent(l, reason, s.u.Now)
			}
			cl.Outcome = apitypes.OutcomeLost
		}
		n++
		if err := s.u.Apply(d); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// letGo has a cluster released that is kept for people to look at, where its agent has ended or its machine is to go.
func (s *syncing) letGo(cl *record.Cluster, use record.PoolUse) error {
	if !cl.Kept(s.u.Now) || !s.emptied() && s.ended(use) < 0 {
		return nil
	}
	return s.u.Apply(attempt.DecideLetGo(*cl, s.vacating(), s.u.Now))
}

// emptied says whether all that runs on the machine is to save its work and go.
func (s *syncing) emptied() bool { return s.m.Leaving || s.m.Vacate || s.shut }

// ended finds how the agent of a use has ended, −1 where it has not.
func (s *syncing) ended(use record.PoolUse) int {
	return slices.IndexFunc(s.report.Ended, func(x wire.PoolEnd) bool { return x.PoolAgent == use.Agent() })
}

// vacating says why what runs on the machine is to go.
func (s *syncing) vacating() string {
	if s.m.Leaving {
		return "machine " + machineName(s.pool.Name, s.claims.Machine) + " leaves its pool"
	}
	if s.shut && !s.m.Vacate {
		return "the time window " + s.window + " of machine " + machineName(s.pool.Name, s.claims.Machine) +
			" has ended"
	}
	return wantsBack(s.pool.Name, s.claims.Machine)
}

// BegunAnew says of an agent that asks for its first command that the one before it on this machine of a pool had begun
// the task already, and is gone: a machine that comes back after it had lost all that ran there. What was saved since
// is for another attempt to go on with.
func BegunAnew(cl record.Cluster, rank, seen int) bool {
	return cl.Assigned() && seen == 0 && cl.Nodes[rank].Started
}

// orders tells what should run.
func (s *syncing) orders() (o wire.PoolOrders, err error) {
	o.Agents, o.Draining = []wire.PoolOrder{}, s.pool.Draining || s.m.Draining || s.m.Leaving
	wait := s.cfg.Pool.Idle
	if s.m.Leaving {
		wait = s.cfg.Pool.Busy
	}
	for i, use := range s.m.Uses {
		cl, running := &s.clusters[i], slices.Contains(s.report.Running, use.Agent())
		if cl.State != record.ClusterUp || cl.Outcome != "" {
			wait = s.cfg.Pool.Busy // it is about to begin, or to end
		}
		if cl.State == "" || cl.State == record.ClusterLaunching || cl.State == record.ClusterReleasing ||
			cl.Outcome != "" && !running || s.ended(use) >= 0 {
			continue
		}
		order := wire.PoolOrder{PoolAgent: use.Agent(), Job: cl.Job, Endpoint: s.cfg.Endpoint,
			Hold: wire.PoolCapacity(use.Hold), Devices: use.Devices}
		if !running {
			if order.Token, err = s.token(cl, use.Rank); err != nil {
				return o, err
			}
		}
		o.Agents = append(o.Agents, order)
	}
	o.After = s.cfg.Wall(wait)
	return o, nil
}

// token mints what an agent dials home with.
func (s *syncing) token(cl *record.Cluster, rank int) (string, error) {
	job, found, err := book.Get[record.Job](s.u, record.JobKey(cl.Job))
	if err != nil || !found {
		return "", record.NotFound(err, "job "+cl.Job)
	}
	spec, err := s.u.Spec(job)
	if err != nil {
		return "", err
	}
	o := cl.Offer
	expires := s.u.Now.Add(s.cfg.TokenFor + 2*spec.Tasks[cl.Task].Time.For(o.InstanceType, o.Accelerator, o.AccelCount))
	token, err := s.tokens(wire.Claims{Job: cl.Job, Cluster: cl.ID, Rank: rank, Expires: expires})
	if err != nil {
		return "", fmt.Errorf("broker: token for %s: %w", cl.ID, err)
	}
	return token, nil
}
