package broker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// MachineReport is what the resident process of a machine says each time it asks what to run.
type MachineReport struct {
	// Joined is when the machine was let into the pool, by what it proves itself with. A machine that was removed since is not let in again.
	Joined time.Time
	// Type is what the author of a task may ask for as its instance type; DefaultMachineType where nothing is said.
	Type     string
	Labels   map[string]string
	Capacity Capacity
	// Running are the agents whose processes live there. They need no token again.
	Running []AgentRef
	// Ended are agents that have ended by themselves, or could not be started. They are reported until their cluster is no longer ordered, and are not
	// started again.
	Ended []AgentEnd
	// Leaving says that the process is about to end: what runs saves its work and goes on elsewhere. When nothing is ordered any more the machine
	// is out of the pool.
	Leaving bool
}

// AgentRef names the agent of one rank of a cluster.
type AgentRef struct {
	Cluster string
	Rank    int
}

// AgentEnd is how an agent ended.
type AgentEnd struct {
	AgentRef
	Reason string
}

// Orders are the agents that should run on a machine: what runs there and is not among them is killed, before anything is started.
type Orders struct {
	Clusters []AgentOrder
	// After is how soon to ask again, by the machine's clock.
	After time.Duration
	// Draining says that nothing new will come.
	Draining bool
}

// AgentOrder is one agent that should run, with all that it needs to dial home.
type AgentOrder struct {
	AgentRef
	Job      string
	Endpoint string
	// Token is this rank's own, good for this job only; empty where the agent runs already.
	Token string
	// Hold is what it may use of the machine, Devices the indexes of its accelerators.
	Hold    Capacity
	Devices []int
}

// DefaultMachineType is the type of a machine that says nothing of it.
const DefaultMachineType = "machine"

const (
	maxLabels   = 16
	maxLabel    = 128
	maxQuantity = 1e5
)

// check fails with ErrPool, naming the field.
func (r MachineReport) check(machine string) error {
	if err := checkName(machine); err != nil {
		return fmt.Errorf("%w: machine: %w", ErrPool, err)
	}
	if err := checkName(r.Type); err != nil {
		return fmt.Errorf("%w: type: %w", ErrPool, err)
	}
	if len(r.Labels) > maxLabels {
		return fmt.Errorf("%w: labels: there are %d, and can be %d", ErrPool, len(r.Labels), maxLabels)
	}
	for k, v := range r.Labels {
		if k == "" || len(k) > maxLabel || len(v) > maxLabel {
			return fmt.Errorf("%w: labels: %.20q is empty or longer than %d characters", ErrPool, k, maxLabel)
		}
	}
	return r.Capacity.check()
}

// check fails with ErrPool on what no machine can have.
func (c Capacity) check() error {
	for _, x := range []struct {
		name         string
		value, least float64
	}{{"cpus", c.CPUs, math.SmallestNonzeroFloat64}, {"memoryGiB", c.MemoryGiB, math.SmallestNonzeroFloat64}, {"accelerators", c.Accelerators, 0}} {
		if !(x.value >= x.least && x.value <= maxQuantity) {
			return fmt.Errorf("%w: capacity.%s: %v is not a quantity that a machine can have", ErrPool, x.name, x.value)
		}
	}
	if n := c.Accelerators; n != math.Trunc(n) || n > maxDevices || n > 0 != (c.Accelerator != "") || len(c.Accelerator) > maxLabel {
		return fmt.Errorf("%w: capacity.accelerators: %v of %q: a machine has a whole number of accelerators with a name, at most %d, or none", ErrPool, n, clip(c.Accelerator), maxDevices)
	}
	return nil
}

// maxDevices bounds the accelerators of a machine.
const maxDevices = 64

// SyncMachine takes in what a machine says and tells it what should run there. It may be repeated, lost and overtaken: what it tells is all that should
// run, not what has changed. It fails with ErrGone where the pool is gone or the machine was removed from it, and with ErrPool on a report that cannot be.
func (b *Keeper) SyncMachine(ctx context.Context, pool, machine string, r MachineReport) (Orders, error) {
	if r.Type == "" {
		r.Type = DefaultMachineType
	}
	if err := r.check(machine); err != nil {
		return Orders{}, err
	}
	var o Orders
	err := b.transact(ctx, fnPool, "sync/"+pool+"/"+machine, false, func(u *unit) error {
		return u.draft(func(d *draft) (err error) {
			s := syncing{cfg: b.cfg, tokens: b.tokens, u: d, id: machine, report: r}
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
func (poolGone) Is(target error) bool { return target == ErrGone }

// syncing is what one report of a machine is decided on.
type syncing struct {
	cfg    Config
	tokens func(wire.Claims) (string, error)
	u      *draft
	id     string
	report MachineReport

	pool     Pool
	part     Partition
	seen     Beat
	m        *PoolMachine // in part
	clusters []*Cluster   // by use of the machine; nil of one that has no record yet, or no more
	changed  bool         // the partition is to be written
}

func (s *syncing) load(pool string) (err error) {
	var found bool
	if s.pool, found, err = get[Pool](s.u, poolKey(pool)); err != nil {
		return err
	}
	if !found || s.report.Joined.Before(s.pool.Created.Truncate(time.Second)) {
		return poolGone("there is no pool " + pool)
	}
	index := s.pool.partitionOf(s.id)
	key, beat := partitionKey(pool, index), beatKey(pool, index, s.id)
	if err := s.u.preload(key, beat); err != nil {
		return err
	}
	if s.part, _, err = get[Partition](s.u, key); err != nil {
		return err
	}
	if s.seen, _, err = get[Beat](s.u, beat); err != nil {
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
		keys[i] = clusterKey(use.Cluster)
	}
	if err := s.u.preload(keys...); err != nil {
		return err
	}
	s.clusters = make([]*Cluster, len(s.m.Uses))
	for i, use := range s.m.Uses {
		cl, found, err := get[Cluster](s.u, clusterKey(use.Cluster))
		if err != nil {
			return err
		}
		if found {
			s.clusters[i] = &cl
		}
	}
	return nil
}

// machine finds a machine of the partition, or where it would be.
func (p *Partition) machine(id string) (i int, found bool) {
	return slices.BinarySearchFunc(p.Machines, id, func(m PoolMachine, id string) int { return strings.Compare(m.ID, id) })
}

// enter takes in what the machine says of itself.
func (s *syncing) enter() error {
	i, found := s.part.machine(s.id)
	r := s.report
	if !found {
		if len(s.part.Machines) >= maxPartition || s.u.size(partitionKey(s.pool.Name, s.part.Index)) > maxPartitionBytes {
			return fmt.Errorf("%w: partition %d of %s has %d machines, and can have no more: make the pool with more partitions", ErrPool, s.part.Index, s.pool.Name, len(s.part.Machines))
		}
		s.part.Machines = slices.Insert(s.part.Machines, i, PoolMachine{ID: s.id, Joined: s.u.now})
	}
	s.m = &s.part.Machines[i]
	if found && s.m.Type == r.Type && s.m.Capacity == r.Capacity && s.m.Leaving == r.Leaving && maps.Equal(s.m.Labels, r.Labels) {
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
		s.m.fail(failed, s.cfg.Pool.BlockFor, s.u.now)
		s.changed = true
	}
	o, err := s.orders()
	if err != nil {
		return o, err
	}
	var d Decision
	part, beat := partitionKey(s.pool.Name, s.part.Index), beatKey(s.pool.Name, s.part.Index, s.id)
	if s.report.Leaving && len(s.m.Uses) == 0 {
		i, _ := s.part.machine(s.id)
		s.part.Machines = slices.Delete(s.part.Machines, i, i+1)
		d.put(part, s.part)
		d.del(beat)
		return o, s.u.apply(d)
	}
	if s.changed {
		d.put(part, s.part)
		d.hold(poolKey(s.pool.Name)) // nothing joins what is being removed
	}
	if s.changed || s.u.now.Sub(s.seen.At) >= s.cfg.Pool.Beat {
		d.put(beat, Beat{At: s.u.now})
	}
	return o, s.u.apply(d)
}

// fail keeps a machine from getting anything new for a time.
func (m *PoolMachine) fail(reason string, span time.Duration, now time.Time) {
	if now.Sub(m.BlockedUntil) > 2*span {
		m.Failures = 0
	}
	m.BlockedUntil = now.Add(span << min(m.Failures, maxBlockDoublings))
	m.Failures++
	m.Reason = clip(reason)
}

// lossesMost bounds the attempts that one report ends, so that they fit a transaction; the next report ends more.
const lossesMost = 8

// losses ends the attempts of which the machine says that their agents have ended, and has those save their work that a machine is about to leave. It
// returns why the machine is no good, if it has failed to bring one up.
func (s *syncing) losses() (failed string, err error) {
	n := 0
	for i, use := range s.m.Uses {
		cl := s.clusters[i]
		if cl == nil || cl.Outcome != "" || cl.State == ClusterReleasing || n == lossesMost {
			continue
		}
		node := &cl.Nodes[use.Rank]
		at := slices.IndexFunc(s.report.Ended, func(x AgentEnd) bool { return x.AgentRef == use.ref() })
		if node.Done || node.Stopped || at < 0 && !s.m.Leaving && !s.m.Vacate {
			continue // it has told the end of its part itself, or has not ended
		}
		l, found, err := loadLosing(s.u, cl.ID)
		if err != nil || !found {
			return failed, err
		}
		var d Decision
		switch {
		case at >= 0:
			reason := fmt.Sprintf("its agent on machine %s has ended: %s", s.id, clip(s.report.Ended[at].Reason))
			if node.Address == "" {
				failed = reason
			}
			d = decideLost(l, OutcomeLost, reason, s.u.now)
			cl.Outcome = OutcomeLost
		default:
			d = decideVacate(l, s.cfg, s.vacating(), s.u.now)
		}
		n++
		if err := s.u.apply(d); err != nil {
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

// begunAnew says of an agent that asks for its first command that the one before it on this machine of a pool had begun the task already, and is gone: a
// machine that comes back after it had lost all that ran there. What was saved since is for another attempt to go on with.
func begunAnew(cl Cluster, rank, seen int) bool {
	return cl.Offer.Cloud == PoolCloud && seen == 0 && cl.Nodes[rank].Started
}

func (use PoolUse) ref() AgentRef { return AgentRef{Cluster: use.Cluster, Rank: use.Rank} }

// orders tells what should run.
func (s *syncing) orders() (o Orders, err error) {
	o.Clusters, o.Draining = []AgentOrder{}, s.pool.Draining || s.m.Draining || s.m.Leaving
	wait := s.cfg.Pool.Idle
	if s.m.Leaving {
		wait = s.cfg.Pool.Busy
	}
	for i, use := range s.m.Uses {
		cl := s.clusters[i]
		if cl == nil || cl.State != ClusterUp || cl.Outcome != "" {
			wait = s.cfg.Pool.Busy // it is about to begin, or to end
		}
		if cl == nil || cl.State == ClusterLaunching || cl.State == ClusterReleasing || cl.Outcome != "" && !slices.Contains(s.report.Running, use.ref()) {
			continue
		}
		if slices.ContainsFunc(s.report.Ended, func(x AgentEnd) bool { return x.AgentRef == use.ref() }) {
			continue
		}
		order := AgentOrder{AgentRef: use.ref(), Job: cl.Job, Endpoint: s.cfg.Endpoint, Hold: use.Hold, Devices: use.Devices}
		if !slices.Contains(s.report.Running, use.ref()) {
			if order.Token, err = s.token(cl, use.Rank); err != nil {
				return o, err
			}
		}
		o.Clusters = append(o.Clusters, order)
	}
	o.After = s.cfg.wall(wait)
	return o, nil
}

// token mints what an agent dials home with.
func (s *syncing) token(cl *Cluster, rank int) (string, error) {
	job, found, err := get[Job](s.u, jobKey(cl.Job))
	if err != nil || !found {
		return "", notFound(err, "job "+cl.Job)
	}
	spec, err := s.u.spec(job)
	if err != nil {
		return "", err
	}
	o := cl.Offer
	expires := s.u.now.Add(s.cfg.TokenFor + 2*spec.Tasks[cl.Task].Time.For(o.InstanceType, o.Accelerator, o.AccelCount))
	token, err := s.tokens(wire.Claims{Job: cl.Job, Cluster: cl.ID, Rank: rank, Expires: expires})
	if err != nil {
		return "", fmt.Errorf("broker: token for %s: %w", cl.ID, err)
	}
	return token, nil
}

// maxMessage bounds what is kept of a machine's words.
const maxMessage = 256

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "") }
