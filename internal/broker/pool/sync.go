package pool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// DefaultMachineType is the type of machines that report none.
const DefaultMachineType = "machine"

// check validates a report. It fails with ErrPool and names the field.
func check(machine string, r wire.PoolReport) error {
	if err := record.CheckName(machine); err != nil {
		return fmt.Errorf("%w: machine: %w", record.ErrPool, err)
	}
	if err := record.CheckName(r.Type); err != nil {
		return fmt.Errorf("%w: type: %w", record.ErrPool, err)
	}
	if len(r.Labels) > record.MaxLabels {
		return fmt.Errorf("%w: labels: %d, but at most %d allowed", record.ErrPool, len(r.Labels), record.MaxLabels)
	}
	for k, v := range r.Labels {
		if k == "" || len(k) > record.MaxLabel || len(v) > record.MaxLabel {
			return fmt.Errorf("%w: labels: %.20q is empty or longer than %d characters", record.ErrPool, k,
				record.MaxLabel)
		}
	}
	return record.CheckCapacity(apitypes.Capacity(r.Capacity))
}

// SyncMachine processes the report of an authenticated machine. It returns the agents that should run there, without
// a new machine token. Calls may be repeated, lost or reordered, because the orders list everything that should run,
// not changes. It fails with ErrGone if the pool or the machine was removed, and with ErrPool for an invalid report.
func (b *Keeper) SyncMachine(ctx context.Context, m wire.PoolClaims,
	r wire.PoolReport) (o wire.PoolOrders, err error) {
	r.Type = cmp.Or(r.Type, DefaultMachineType)
	if err := check(m.Machine, r); err != nil {
		return o, err
	}
	err = b.txns.Transact(ctx, fnPool, "sync/"+m.Pool+"/"+m.Machine, false, func(u *txn.Unit) error {
		return u.Draft(func(d *recordcache.Draft) (err error) {
			s := syncing{cfg: b.txns.Config, tokens: b.tokens, u: d, claims: m, report: r}
			if b.policy != nil && r.Labels[record.LabelWindow] != "" {
				s.window, s.closed = session.WindowClosed(b.policy(ctx), r.Labels, u.Now)
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

// poolGone is the error for a machine that is no longer in the pool. It is an ErrGone.
type poolGone string

func (e poolGone) Error() string { return "pool: " + string(e) }

// Is makes poolGone an ErrGone.
func (poolGone) Is(target error) bool { return target == record.ErrGone }

// syncing is the state while the report of a machine is processed.
type syncing struct {
	cfg    config.Config
	tokens func(wire.Claims) (string, error)
	u      *recordcache.Draft
	claims wire.PoolClaims
	report wire.PoolReport

	window string // the machine's time window, if it is closed
	closed bool

	key, beat store.Key // keys of the partition, and of the time of the machine's last call

	pool     record.Pool
	part     record.Partition
	seen     record.Beat
	m        *record.PoolMachine // in part
	clusters []record.Cluster    // one for each use of the machine; empty if it has no record
	unread   []bool              // clusters that were not read, because nothing has to be decided about them
	changed  bool                // the partition must be written
	worker   *record.PoolWorker  // the machine's data as a worker, if the pool is that of a job's workers
	job      record.Job          // and that job
	spec     *dag.Job
	joined   bool      // the worker has just joined
	taken    time.Time // when a cloud will take the worker; zero if it will not
}

func (s *syncing) load() (err error) {
	pool, id := s.claims.Pool, s.claims.Machine
	var found bool
	if s.pool, found, err = recordcache.Get[record.Pool](s.u, record.PoolKey(pool)); err != nil {
		return err
	}
	if !found || s.claims.Joined.Before(s.pool.Created.Truncate(time.Second)) {
		return poolGone("there is no pool " + pool)
	}
	index := s.pool.PartitionOf(id)
	s.key, s.beat = record.PartitionKey(pool, index), record.BeatKey(pool, index, id)
	var lacking error
	s.part, _, err = recordcache.Get[record.Partition](s.u, s.key)
	s.seen, _, lacking = recordcache.Get[record.Beat](s.u, s.beat)
	if err = cmp.Or(err, lacking); err != nil {
		return err
	}
	s.part.Pool, s.part.Index = pool, index
	if err := s.loadWorker(); err != nil {
		return err
	}
	for _, x := range s.part.Removed {
		if x.ID == id && !s.claims.Joined.After(x.At) {
			return poolGone("machine " + id + " was removed from pool " + pool)
		}
	}
	if err := s.applyReport(); err != nil {
		return err
	}
	if s.worker != nil && !s.m.IsWorker() {
		s.m.Worker, s.changed = *s.worker, true
	}
	if !s.taken.IsZero() && !s.m.Draining {
		s.m.Draining, s.changed = true, true
	}
	for _, use := range s.m.Uses {
		var cl record.Cluster
		var lacking error
		steady := s.worker != nil && s.runs(use) && s.ended(use) < 0 && !s.vacated()
		if !steady {
			cl, _, lacking = recordcache.Get[record.Cluster](s.u, record.ClusterKey(use.Cluster))
		}
		s.clusters, s.unread, err = append(s.clusters, cl), append(s.unread, steady), cmp.Or(err, lacking)
	}
	return err
}

// runs reports whether the report lists a use's agent as running. That agent learns of the end of its attempt by its
// own calls. So a worker with many tasks need not read all of their clusters each time.
func (s *syncing) runs(use record.PoolUse) bool {
	return slices.Contains(s.report.Running, use.Agent())
}

// applyReport applies the machine's own description to the partition.
func (s *syncing) applyReport() error {
	i, found := s.part.Machine(s.claims.Machine)
	r := s.report
	if !found {
		if len(s.part.Machines) >= record.MaxPartition ||
			s.u.Size(s.key) > record.MaxPartitionBytes {
			return fmt.Errorf(
				"%w: partition %d of %s already has %d machines, the maximum: create the pool with more partitions",
				record.ErrPool, s.part.Index, s.pool.Name, len(s.part.Machines))
		}
		s.part.Machines = slices.Insert(s.part.Machines, i, record.PoolMachine{ID: s.claims.Machine, Joined: s.u.Now})
	}
	s.joined = s.worker != nil && !found
	s.m = &s.part.Machines[i]
	if found && s.m.Type == r.Type && s.m.Capacity == apitypes.Capacity(r.Capacity) && s.m.Leaving == r.Leaving &&
		maps.Equal(s.m.Labels, r.Labels) {
		return nil
	}
	s.m.Type, s.m.Labels, s.m.Capacity, s.m.Leaving = r.Type, r.Labels, apitypes.Capacity(r.Capacity), r.Leaving
	s.changed = true
	return nil
}

// decide ends attempts whose agents have ended, writes changes, and returns the agents that should run.
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
	if s.worker != nil {
		if o.Leave, err = s.mayLeave(); err != nil {
			return o, err
		}
	}
	if s.changed {
		d.Put(s.key, s.part)
		d.Hold(record.PoolKey(s.pool.Name)) // so that no machine joins a pool that is being removed
	}
	if s.joined {
		d.Hold(record.ClusterKey(record.ClusterID(s.job.ID, s.worker.Task, s.worker.Attempt)))
		d.Emit(events.CapacityFreed{Queue: s.job.Queue}) // so that a session gives it tasks
	}
	if s.worker == nil && (s.changed || s.u.Now.Sub(s.seen.At) >= s.cfg.Pool.Beat) {
		d.Put(s.beat, record.Beat{At: s.u.Now})
	}
	return o, s.u.Apply(d)
}

// lossesMost is the maximum number of attempts that one report ends, so that they fit into a transaction. The next
// report ends more.
const lossesMost = 8

// losses ends the attempts whose agents have ended according to the report, and makes tasks save their work if they
// have to leave the machine. If the machine failed to start an agent, it returns the reason for which the machine is
// blocked.
func (s *syncing) losses() (failed string, err error) {
	n := 0
	for i, use := range s.m.Uses {
		cl := &s.clusters[i]
		if err := s.releaseKept(cl, use); err != nil {
			return failed, err
		}
		if cl.State == "" || cl.Outcome != "" || cl.State == record.ClusterReleasing || n == lossesMost {
			continue
		}
		node := &cl.Nodes[use.Rank]
		at := s.ended(use)
		if node.Done || node.Stopped || at < 0 && !s.vacated() {
			continue // the agent has reported its end itself, or has not ended
		}
		l, found, err := attempt.LoadLosing(s.u, cl.ID)
		if err != nil || !found {
			return failed, err
		}
		d := attempt.DecideVacate(l, s.cfg, s.vacating(), s.u.Now)
		if !s.taken.IsZero() {
			d = attempt.DecideDoomed(l, s.taken, s.u.Now)
		}
		if at >= 0 {
			reason := fmt.Sprintf("its agent on machine %s has ended: %s", s.claims.Machine,
				readable.ClipMessage(s.report.Ended[at].Reason))
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

// releaseKept releases a cluster that is kept for inspection, if its agent has ended or the machine must be vacated.
func (s *syncing) releaseKept(cl *record.Cluster, use record.PoolUse) error {
	if !cl.Kept(s.u.Now) || !s.vacated() && s.ended(use) < 0 {
		return nil
	}
	return s.u.Apply(attempt.DecideReleaseKept(*cl, s.vacating(), s.u.Now))
}

// vacated reports whether all tasks must save their work and leave the machine.
func (s *syncing) vacated() bool { return s.m.Leaving || s.m.Vacate || s.closed || !s.taken.IsZero() }

// ended returns the index of the report's entry about the end of a use's agent, or −1.
func (s *syncing) ended(use record.PoolUse) int {
	return slices.IndexFunc(s.report.Ended, func(x wire.PoolEnd) bool { return x.PoolAgent == use.Agent() })
}

// vacating returns the reason why tasks must leave the machine.
func (s *syncing) vacating() string {
	if s.m.Leaving {
		return "machine " + machineName(s.pool.Name, s.claims.Machine) + " leaves its pool"
	}
	if s.closed && !s.m.Vacate {
		return "the time window " + s.window + " of machine " + machineName(s.pool.Name, s.claims.Machine) +
			" has ended"
	}
	return wantsBack(s.pool.Name, s.claims.Machine)
}

// Restarted reports whether an earlier agent had already started the task on this machine of a pool. It is called for
// an agent that requests its first command. This happens when a machine returns after it has lost all that ran there.
// Another attempt then resumes from the last checkpoint.
func Restarted(cl record.Cluster, rank, seen int) bool {
	return cl.Assigned() && seen == 0 && cl.Nodes[rank].Started
}

// orders lists the agents that should run on the machine.
func (s *syncing) orders() (o wire.PoolOrders, err error) {
	o.Agents, o.Draining = []wire.PoolOrder{}, s.pool.Draining || s.m.Draining || s.m.Leaving
	wait := s.cfg.Pool.Idle
	if s.m.Leaving {
		wait = s.cfg.Pool.Busy
	}
	for i, use := range s.m.Uses {
		cl, running := &s.clusters[i], s.runs(use)
		if s.unread[i] {
			o.Agents = append(o.Agents, s.order(use))
			continue
		}
		if cl.State != record.ClusterUp || cl.Outcome != "" {
			wait = s.cfg.Pool.Busy // the agent is about to start or to end
		}
		if cl.State == "" || cl.State == record.ClusterLaunching || cl.State == record.ClusterReleasing ||
			cl.Outcome != "" && !running || s.ended(use) >= 0 {
			continue
		}
		order := s.order(use)
		if !running {
			if order.Token, err = s.token(cl, use.Rank); err != nil {
				return o, err
			}
		}
		o.Agents = append(o.Agents, order)
	}
	s.pace(&o, wait)
	return o, nil
}

// pace sets when the machine calls again.
func (s *syncing) pace(o *wire.PoolOrders, wait time.Duration) {
	if s.worker != nil && s.cfg.Pace.Polls && !s.vacated() {
		o.Gather = s.cfg.Wall(s.cfg.Pool.Gather)
	}
	if s.worker != nil && !s.m.Leaving {
		if !s.full() {
			wait = s.cfg.Pool.Busy // the job's next task may be ready at any time
			if o.Gather > 0 && len(s.report.Ended) > 0 {
				wait = s.cfg.Pool.Gather // no session knows of the free room yet
			}
		} else if wait == s.cfg.Pool.Idle {
			wait = s.cfg.Pool.Full
		}
	}
	o.After = s.cfg.Wall(wait)
}

// order returns the order for the agent of a use, without a token.
func (s *syncing) order(use record.PoolUse) wire.PoolOrder {
	return wire.PoolOrder{PoolAgent: use.Agent(), Job: record.ClusterJob(use.Cluster), Endpoint: s.cfg.Endpoint,
		Hold: wire.PoolCapacity(use.Hold), Devices: use.Devices}
}

// token creates the token with which an agent calls the broker.
func (s *syncing) token(cl *record.Cluster, rank int) (string, error) {
	job, found, err := recordcache.Get[record.Job](s.u, record.JobKey(cl.Job))
	if err != nil || !found {
		return "", record.NotFound(err, "job "+cl.Job)
	}
	spec, err := s.u.Spec(job)
	if err != nil {
		return "", err
	}
	o := cl.Offer
	expires := s.u.Now.Add(s.cfg.TokenFor + 2*record.TimeOn(&spec.Tasks[cl.Task], o))
	token, err := s.tokens(wire.Claims{Job: cl.Job, Cluster: cl.ID, Rank: rank, Expires: expires})
	if err != nil {
		return "", fmt.Errorf("broker: token for %s: %w", cl.ID, err)
	}
	return token, nil
}
