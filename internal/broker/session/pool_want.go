package session

import (
	"errors"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// want is a task that could run in a pool, with the resources that it would hold on each machine and the machines
// that suit it.
type want struct {
	a        *admission
	hold     apitypes.Capacity
	machines map[record.MachineClass]float64 // hours on a machine of each class
	mostUSD  float64                         // maximum cost on any of these
	instead  apitypes.Instead
}

// want returns the resources that a task could get from a pool. It returns nil if no machine of the pool suits the
// task, is cheaper than its planned offer, and finishes in time.
func (s *Session) want(p *record.PoolSeen, a *admission) (*want, error) {
	choice := a.plan.Of(a.waiting.Task)
	if choice == nil || a.pool != nil || a.awaits || a.shares() || a.isWorker() || !p.Allowed(a.spec.Regions) {
		return nil, nil
	}
	w := &want{a: a}
	t := &a.spec.Tasks[a.waiting.Task]
	if choice.Offer.Service != "" && t.Nodes > 1 { // the plan has one place, and a pool would need several machines
		return nil, nil
	}
	if t.Mounts() { // it is unknown whether machines of a pool can mount
		return nil, nil
	}
	here, planned, err := s.moves(p, a, choice)
	if err != nil {
		return nil, err
	}
	w.instead = apitypes.Instead{Offer: choice.ID, USD: a.plan.TaskUSD[a.waiting.Task] + planned.usd}
	slack, err := s.slack(a)
	if err != nil {
		return nil, err
	}
	for i := range t.Resources {
		w.machines, w.mostUSD = map[record.MachineClass]float64{}, 0
		classes := p.Classes(&t.Resources[i])
		w.hold = poolfit.HoldOf(&t.Resources[i], classes, choice.VCPU)
		for class, m := range classes {
			whole := t.TimeOn(m.Type, w.hold.Accelerator, w.hold.Accelerators, 0, a.nodes)
			hours := record.Hours(whole) * (1 - a.task.Progress)
			cost := m.Share(w.hold)*p.USDPerHour*hours*float64(a.nodes) + here.usd
			inTime := hours+here.hours <= a.plan.TaskHours[a.waiting.Task]+planned.hours+record.CentsEps ||
				record.Duration(hours+here.hours) <= slack
			if cost < w.instead.USD-record.CentsEps && inTime {
				w.machines[class], w.mostUSD = hours, max(w.mostUSD, cost)
			}
		}
		if len(w.machines) > 0 {
			return w, nil
		}
	}
	return nil, nil
}

// moving is the cost and duration of moving a task's data.
type moving struct {
	config.Mover
	usd, hours float64
}

func (m *moving) add(from, to string, gib float64) {
	if usd, hours, ok := m.Move(from, to); ok {
		m.usd += usd * gib
		m.hours += hours * gib
	}
}

// moves returns the cost and duration of moving a task's data if it runs in the pool, and if it runs at its planned
// location. This includes its inputs, and its outputs for later tasks, which are assumed to be at their planned
// locations.
func (s *Session) moves(p *record.PoolSeen, a *admission, choice *record.Planned) (here, planned moving, err error) {
	switch {
	case p.Place == "":
		return here, planned, nil
	case s.Mover == nil:
		return here, planned, record.Final(errors.New("broker: no price for moving data: Ports.Moves is not set"))
	}
	here.Mover, planned.Mover = s.Mover, s.Mover
	there := record.Place(choice.Offer)
	reads := func(from string, gib float64) {
		if from != "" {
			here.add(from, p.Place, gib)
			planned.add(from, there, gib)
		}
	}
	for _, in := range a.spec.Tasks[a.waiting.Task].Inputs {
		reads(s.Mover.PlaceOf(in.URI), float64(in.Size))
	}
	places, err := s.comesFrom(a)
	if err != nil {
		return here, planned, err
	}
	for _, e := range a.spec.Edges {
		switch {
		case e.Data <= 0:
		case e.To == a.waiting.Task:
			reads(places[e.From], float64(e.Data))
		case e.From == a.waiting.Task:
			if c := a.plan.Of(e.To); c != nil {
				here.add(p.Place, record.Place(c.Offer), float64(e.Data))
				planned.add(there, record.Place(c.Offer), float64(e.Data))
			}
		}
	}
	return here, planned, nil
}

// comesFrom returns the locations of the outputs of the task's parents, by parent.
func (s *Session) comesFrom(a *admission) (map[int]string, error) {
	var parents []int32
	for _, e := range a.spec.EdgesTo(a.waiting.Task) {
		if a.spec.Edges[e].Data > 0 {
			parents = append(parents, int32(a.spec.Edges[e].From)) //nolint:gosec // a task of the job
		}
	}
	found, err := attempt.LoadTasks(s.u, a.job, parents)
	at := make(map[int]string, len(found))
	for _, t := range found {
		at[t.Index] = t.Place
	}
	return at, err
}

// slack returns the time that a task may take if it takes longer than planned: until it must finish, less the start
// times of itself and its followers. It is unlimited for a job without a deadline, and negative for a job that must
// finish as soon as possible.
func (s *Session) slack(a *admission) (time.Duration, error) {
	switch {
	case a.job.Objective == dag.MinimizeMakespan:
		return -1, nil
	case a.job.Deadline.IsZero():
		return math.MaxInt64, nil
	case a.job.Bids.IsZero():
		return 0, nil
	}
	bids, err := s.u.Bids(a.job)
	if err != nil || a.waiting.Task >= len(bids.FinishBy) {
		return 0, err
	}
	starts := time.Duration(poolfit.Followers(a.spec, a.waiting.Task) + 1)
	return bids.FinishBy[a.waiting.Task].Sub(s.u.Now) - starts*(s.Config.Restart+s.Config.Overhead), nil
}
