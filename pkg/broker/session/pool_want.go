package session

import (
	"errors"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// want is a task that could go to a pool: what it holds of a machine there, and which machines it may be given.
type want struct {
	a        admission
	hold     record.Capacity
	machines map[record.MachineClass]float64 // hours on a machine of the class
	instead  record.Instead
	job      *dag.Job
}

func (w *want) key() string { return w.a.job.ID + "/" + strconv.Itoa(w.a.waiting.Task) }

// gibPerCPU is the memory that a task without a word on it is given with each vCPU: that of the clouds' machines with
// the least.
const gibPerCPU = 2

// want says what a task could have of a pool, nil where nothing there suits it, costs less than what is planned for it,
// and is done in time.
func (s *Session) want(p *record.PoolSeen, a admission) (*want, error) {
	choice := a.plan.Of(a.waiting.Task)
	spec, err := s.u.Spec(a.job)
	if err != nil || choice == nil || a.pool != nil || !p.Allowed(spec.Regions) {
		return nil, err
	}
	w := &want{a: a, job: spec}
	t := &spec.Tasks[a.waiting.Task]
	here, planned, err := s.moves(p, spec, a, choice)
	if err != nil {
		return nil, err
	}
	w.instead = record.Instead{Offer: choice.ID, USD: a.plan.TaskUSD[a.waiting.Task] + planned.usd}
	by, err := s.doneBy(a)
	if err != nil {
		return nil, err
	}
	for i := range t.Resources {
		w.machines = map[record.MachineClass]float64{}
		classes := p.Classes(&t.Resources[i])
		w.hold = holdOf(&t.Resources[i], classes, choice.VCPU)
		for class, m := range classes {
			hours := record.Hours(t.Time.For(m.Type, w.hold.Accelerator, w.hold.Accelerators)) * (1 - a.task.Progress)
			cost := m.Share(w.hold)*p.USDPerHour*hours*float64(a.nodes) + here.usd
			if cost < w.instead.USD-record.CentsEps && by.allows(hours+here.hours, planned.hours) {
				w.machines[class] = hours
			}
		}
		if len(w.machines) > 0 {
			return w, nil
		}
	}
	return nil, nil
}

// holdOf is what a task holds of a machine: what it asks for; where it does not say how many vCPUs, as many as what is
// planned for it has, and of memory gibPerCPU with each, but of neither more than its part of any of the machines.
func holdOf(r *dag.Resources, classes map[record.MachineClass]*record.PoolMachine, planned float64) record.Capacity {
	hold := record.Capacity{CPUs: r.CPUs.Min, MemoryGiB: r.Memory.Min, Accelerator: r.Accelerator,
		Accelerators: record.Accelerators(r)}
	part := func(m *record.PoolMachine) float64 {
		if hold.Accelerators > 0 {
			return hold.Accelerators / m.Capacity.Accelerators
		}
		return 1
	}
	if hold.CPUs == 0 {
		hold.CPUs = planned
		for _, m := range classes {
			hold.CPUs = min(hold.CPUs, m.Capacity.CPUs*part(m))
		}
	}
	if hold.MemoryGiB == 0 {
		hold.MemoryGiB = hold.CPUs * gibPerCPU
		for _, m := range classes {
			hold.MemoryGiB = min(hold.MemoryGiB,
				m.Capacity.MemoryGiB*m.Share(record.Capacity{CPUs: hold.CPUs, Accelerators: hold.Accelerators}))
		}
	}
	return hold
}

// moving is what it costs and takes to move a task's data.
type moving struct{ usd, hours float64 }

// moves says what it costs and takes to move a task's data if it runs in a pool, and where it is planned: what it reads
// there, and what it leaves to those after it, who are where they are planned.
func (s *Session) moves(p *record.PoolSeen, spec *dag.Job, a admission,
	choice *record.Planned) (here, planned moving, err error) {
	mover := s.mover
	switch {
	case p.Place == "":
		return here, planned, nil
	case mover == nil:
		return here, planned, record.Final(errors.New("broker: nobody says what it costs to move data (Ports.Moves)"))
	}
	add := func(from, to string, gib float64, m *moving) {
		if usd, hours, ok := mover.Move(from, to); ok {
			m.usd += usd * gib
			m.hours += hours * gib
		}
	}
	both := func(other string, gib float64, in bool) {
		if in {
			add(other, p.Place, gib, &here)
			add(other, record.Place(choice.Offer), gib, &planned)
			return
		}
		add(p.Place, other, gib, &here)
		add(record.Place(choice.Offer), other, gib, &planned)
	}
	for _, in := range spec.Tasks[a.waiting.Task].Inputs {
		if at := mover.PlaceOf(in.URI); at != "" {
			both(at, float64(in.Size), true)
		}
	}
	places, err := s.comesFrom(a.job, spec, a.waiting.Task)
	if err != nil {
		return here, planned, err
	}
	for _, e := range spec.Edges {
		switch {
		case e.Data <= 0:
		case e.To == a.waiting.Task:
			if at := places[e.From]; at != "" {
				both(at, float64(e.Data), true)
			}
		case e.From == a.waiting.Task:
			if c := a.plan.Of(e.To); c != nil {
				both(record.Place(c.Offer), float64(e.Data), false)
			}
		}
	}
	return here, planned, nil
}

// comesFrom says where the data is that a task's parents leave to it, by parent.
func (s *Session) comesFrom(job record.Job, spec *dag.Job, task int) (map[int]string, error) {
	var parents []int32
	for _, e := range spec.Graph().In(task) {
		if spec.Edges[e].Data > 0 {
			parents = append(parents, int32(spec.Edges[e].From)) //nolint:gosec // a task of the job
		}
	}
	found, err := attempt.LoadTasks(s.u, job, parents)
	at := make(map[int]string, len(found))
	for _, t := range found {
		at[t.Index] = t.Place
	}
	return at, err
}

// dueTime is until when a task has to be done.
type dueTime struct {
	left    time.Duration // with the time of a start; none says that there is no bound
	none    bool
	planned float64 // hours of its work where it is planned
	fast    bool    // the job is to be done as soon as can be
}

// allows says whether a task may take so many hours, with moving its data, where the plan's data takes so long to move:
// as long as planned at any rate; longer if the job has time and its author wants it cheap.
func (d dueTime) allows(hours, plannedMove float64) bool {
	if hours <= d.planned+plannedMove+record.CentsEps {
		return true
	}
	return !d.fast && (d.none || record.Duration(hours) <= d.left)
}

// followers is how many tasks follow one on the longest way to the end: each takes the time of a start beside its own.
func followers(g *dag.Graph, i int) int {
	longest := 0
	level, seen := g.Children(i), map[int32]bool{}
	for len(level) > 0 {
		longest++
		var next []int32
		for _, c := range level {
			for _, n := range g.Children(int(c)) {
				if !seen[n] {
					seen[n] = true
					next = append(next, n)
				}
			}
		}
		clear(seen)
		level = next
	}
	return longest
}

// doneBy says until when a waiting task has to be done.
func (s *Session) doneBy(a admission) (d dueTime, err error) {
	i := a.waiting.Task
	d.planned, d.fast, d.none = a.plan.TaskHours[i], a.job.Objective == dag.MinimizeMakespan, a.job.Deadline.IsZero()
	if d.none || a.job.Bids.IsZero() {
		return d, nil
	}
	bids, err := s.u.Bids(a.job)
	if err != nil || i >= len(bids.FinishBy) {
		return d, err
	}
	spec, err := s.u.Spec(a.job)
	d.left = bids.FinishBy[i].Sub(s.u.Now) - time.Duration(followers(spec.Graph(), i)+1)*(s.cfg.Restart+s.cfg.Overhead)
	return d, err
}
