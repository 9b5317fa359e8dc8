package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// MachineReport is what the resident process of a machine says each time it asks what to run.
type MachineReport struct {
	// Joined is when the machine was let into the pool, by what it proves itself with. A machine that was removed since
	// is not let in again.
	Joined time.Time
	// Type is what the author of a task may ask for as its instance type; DefaultMachineType where nothing is said.
	Type     string
	Labels   map[string]string
	Capacity record.Capacity
	// Running are the agents whose processes live there. They need no token again.
	Running []record.AgentRef
	// Ended are agents that have ended by themselves, or could not be started. They are reported until their cluster is
	// no longer ordered, and are not started again.
	Ended []AgentEnd
	// Leaving says that the process is about to end: what runs saves its work and goes on elsewhere. When nothing is
	// ordered any more the machine is out of the pool.
	Leaving bool
}

// AgentEnd is how an agent ended.
type AgentEnd struct {
	record.AgentRef
	Reason string
}

// Orders are the agents that should run on a machine: what runs there and is not among them is killed, before anything
// is started.
type Orders struct {
	Clusters []AgentOrder
	// After is how soon to ask again, by the machine's clock.
	After time.Duration
	// Draining says that nothing new will come.
	Draining bool
}

// AgentOrder is one agent that should run, with all that it needs to dial home.
type AgentOrder struct {
	record.AgentRef
	Job      string
	Endpoint string
	// Token is this rank's own, good for this job only; empty where the agent runs already.
	Token string
	// Hold is what it may use of the machine, Devices the indexes of its accelerators.
	Hold    record.Capacity
	Devices []int
}

// DefaultMachineType is the type of a machine that says nothing of it.
const DefaultMachineType = "machine"

// check fails with ErrPool, naming the field.
func (r MachineReport) check(machine string) error {
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
	return r.Capacity.Check()
}

// SyncMachine takes in what a machine says and tells it what should run there. It may be repeated, lost and overtaken:
// what it tells is all that should run, not what has changed. It fails with ErrGone where the pool is gone or the
// machine was removed from it, and with ErrPool on a report that cannot be.
func (b *Keeper) SyncMachine(ctx context.Context, pool, machine string, r MachineReport) (Orders, error) {
	if r.Type == "" {
		r.Type = DefaultMachineType
	}
	if err := r.check(machine); err != nil {
		return Orders{}, err
	}
	var o Orders
	err := b.Transact(ctx, fnPool, "sync/"+pool+"/"+machine, false, func(u *unit.Unit) error {
		return u.Draft(func(d *book.Draft) (err error) {
			s := syncing{cfg: b.Config, tokens: b.tokens, u: d, id: machine, report: r}
			if err := s.load(pool); err != nil {
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
	id     string
	report MachineReport

	pool     record.Pool
	part     record.Partition
	seen     record.Beat
	m        *record.PoolMachine // in part
	clusters []*record.Cluster   // by use of the machine; nil of one that has no record yet, or no more
	changed  bool                // the partition is to be written
}

func (s *syncing) load(pool string) (err error) {
	var found bool
	if s.pool, found, err = book.Get[record.Pool](s.u, record.PoolKey(pool)); err != nil {
		return err
	}
	if !found || s.report.Joined.Before(s.pool.Created.Truncate(time.Second)) {
		return poolGone("there is no pool " + pool)
	}
	index := s.pool.PartitionOf(s.id)
	key, beat := record.PartitionKey(pool, index), record.BeatKey(pool, index, s.id)
	if err := s.u.Preload(key, beat); err != nil {
		return err
	}
	if s.part, _, err = book.Get[record.Partition](s.u, key); err != nil {
		return err
	}
	if s.seen, _, err = book.Get[record.Beat](s.u, beat); err != nil {
		return err
	}
	s.part.Pool, s.part.Index = pool, index
	for _, x := range s.part.Removed {
		if x.ID == s.id && !s.report.Joined.After(x.At) {
			return poolGone("machine " + s.id + " was removed from pool " + pool)
		}
	}
	if err := s.enter(); err != nil {
		return err
	}
	keys := make([]store.Key, len(s.m.Uses))
	for i, use := range s.m.Uses {
		keys[i] = record.ClusterKey(use.Cluster)
	}
	if err := s.u.Preload(keys...); err != nil {
		return err
	}
	s.clusters = make([]*record.Cluster, len(s.m.Uses))
	for i, use := range s.m.Uses {
		cl, found, err := book.Get[record.Cluster](s.u, record.ClusterKey(use.Cluster))
		if err != nil {
			return err
		}
		if found {
			s.clusters[i] = &cl
		}
	}
	return nil
}

// enter takes in what the machine says of itself.
func (s *syncing) enter() error {
	i, found := s.part.Machine(s.id)
	r := s.report
	if !found {
		if len(s.part.Machines) >= record.MaxPartition ||
			s.u.Size(record.PartitionKey(s.pool.Name, s.part.Index)) > record.MaxPartitionBytes {
			return fmt.Errorf(
				"%w: partition %d of %s has %d machines, and can have no more: make the pool with more partitions",
				record.ErrPool, s.part.Index, s.pool.Name, len(s.part.Machines))
		}
		s.part.Machines = slices.Insert(s.part.Machines, i, record.PoolMachine{ID: s.id, Joined: s.u.Now})
	}
	s.m = &s.part.Machines[i]
	if found && s.m.Type == r.Type && s.m.Capacity == r.Capacity && s.m.Leaving == r.Leaving &&
		maps.Equal(s.m.Labels, r.Labels) {
		return nil
	}
	s.m.Type, s.m.Labels, s.m.Capacity, s.m.Leaving = r.Type, r.Labels, r.Capacity, r.Leaving
	s.changed = true
	return nil
}

// decide ends what the machine says has ended, writes what has changed, and tells what should run.
func (s *syncing) decide() (Orders, error) {
	failed, err := s.losses()
	if err != nil {
		return Orders{}, err
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
	part, beat := record.PartitionKey(s.pool.Name, s.part.Index), record.BeatKey(s.pool.Name, s.part.Index, s.id)
	if s.report.Leaving && len(s.m.Uses) == 0 {
		i, _ := s.part.Machine(s.id)
		s.part.Machines = slices.Delete(s.part.Machines, i, i+1)
		d.Put(part, s.part)
		d.Del(beat)
		return o, s.u.Apply(d)
	}
	if s.changed {
		d.Put(part, s.part)
		d.Hold(record.PoolKey(s.pool.Name)) // nothing joins what is being removed
	}
	if s.changed || s.u.Now.Sub(s.seen.At) >= s.cfg.Pool.Beat {
		d.Put(beat, record.Beat{At: s.u.Now})
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
		cl := s.clusters[i]
		if cl == nil || cl.Outcome != "" || cl.State == record.ClusterReleasing || n == lossesMost {
			continue
		}
		node := &cl.Nodes[use.Rank]
		at := slices.IndexFunc(s.report.Ended, func(x AgentEnd) bool { return x.AgentRef == use.Ref() })
		if node.Done || node.Stopped || at < 0 && !s.m.Leaving && !s.m.Vacate {
			continue // it has told the end of its part itself, or has not ended
		}
		l, found, err := attempt.LoadLosing(s.u, cl.ID)
		if err != nil || !found {
			return failed, err
		}
		var d record.Decision
		switch {
		case at >= 0:
			reason := fmt.Sprintf("its agent on machine %s has ended: %s", s.id, record.Clip(s.report.Ended[at].Reason))
			if node.Address == "" {
				failed = reason
			}
			d = attempt.DecideLost(l, record.OutcomeLost, reason, s.u.Now)
			cl.Outcome = record.OutcomeLost
		default:
			d = attempt.DecideVacate(l, s.cfg, s.vacating(), s.u.Now)
		}
		n++
		if err := s.u.Apply(d); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// vacating says why what runs on the machine is to go.
func (s *syncing) vacating() string {
	if s.m.Leaving {
		return "machine " + machineName(s.pool.Name, s.id) + " leaves its pool"
	}
	return wantsBack(s.pool.Name, s.id)
}

// BegunAnew says of an agent that asks for its first command that the one before it on this machine of a pool had begun
// the task already, and is gone: a machine that comes back after it had lost all that ran there. What was saved since
// is for another attempt to go on with.
func BegunAnew(cl record.Cluster, rank, seen int) bool {
	return cl.Offer.Cloud == record.PoolCloud && seen == 0 && cl.Nodes[rank].Started
}

// orders tells what should run.
func (s *syncing) orders() (o Orders, err error) {
	o.Clusters, o.Draining = []AgentOrder{}, s.pool.Draining || s.m.Draining || s.m.Leaving
	wait := s.cfg.Pool.Idle
	if s.m.Leaving {
		wait = s.cfg.Pool.Busy
	}
	for i, use := range s.m.Uses {
		cl := s.clusters[i]
		if cl == nil || cl.State != record.ClusterUp || cl.Outcome != "" {
			wait = s.cfg.Pool.Busy // it is about to begin, or to end
		}
		if cl == nil || cl.State == record.ClusterLaunching || cl.State == record.ClusterReleasing ||
			cl.Outcome != "" && !slices.Contains(s.report.Running, use.Ref()) {
			continue
		}
		if slices.ContainsFunc(s.report.Ended, func(x AgentEnd) bool { return x.AgentRef == use.Ref() }) {
			continue
		}
		order := AgentOrder{AgentRef: use.Ref(), Job: cl.Job, Endpoint: s.cfg.Endpoint, Hold: use.Hold,
			Devices: use.Devices}
		if !slices.Contains(s.report.Running, use.Ref()) {
			if order.Token, err = s.token(cl, use.Rank); err != nil {
				return o, err
			}
		}
		o.Clusters = append(o.Clusters, order)
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
