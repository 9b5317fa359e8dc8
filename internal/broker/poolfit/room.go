package poolfit

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Task is a waiting task: the capacity that each of its nodes needs, and the classes of machines that suit it.
type Task struct {
	Hold  apitypes.Capacity
	May   map[record.MachineClass]float64
	Nodes int
}

// RunningTask is a running task with one node that may leave its machine.
type RunningTask struct {
	Cluster string
	Machine string
	Hold    apitypes.Capacity
	May     map[record.MachineClass]float64
	// MoveUSD is the loss if the task continues on another of the machines, and LeaveUSD the loss if it continues
	// elsewhere. LeaveUSD is +Inf if the task must not leave the pool for the new task.
	MoveUSD, LeaveUSD float64
}

// Leaving is a task that must leave its machine. To is the machine on which it continues, or empty if it continues
// elsewhere.
type Leaving struct {
	Runs *RunningTask
	To   string
}

// Room is a way to make room for a task: the machine of each node, the tasks that must leave, and the loss in USD.
type Room struct {
	Hosts   []string
	Leaves  []Leaving
	LossUSD float64
}

// Kept returns the machines of a pool that are kept for the nodes of a task, by rank. The kept capacity counts as
// free in them. It returns nil if a machine is gone or cannot be used. free means that each machine has room for a
// node. waits means that some machine has no room yet, and that the task must wait for it.
func Kept(p *record.PoolSeen, task string, nodes int, hold apitypes.Capacity, times config.PoolTimes,
	now time.Time) (machines []*record.PoolMachine, free, waits bool) {
	machines, free = make([]*record.PoolMachine, nodes), true
	left := nodes
	for _, part := range p.Parts {
		for _, m := range part.Machines {
			for _, promise := range m.Promises {
				if promise.For != task || !now.Before(promise.Until) || promise.Rank >= nodes ||
					machines[promise.Rank] != nil || !m.Usable(part.Seen[m.ID], times, now) {
					continue
				}
				rest := m.WithPromises(task, now)
				machines[promise.Rank] = &rest
				left--
				if !record.Fits(hold, rest.Free()) {
					free, waits = false, waits || promise.Waits
				}
			}
		}
	}
	if left > 0 {
		return nil, false, false
	}
	return machines, free, waits
}

// Ranks returns the assignment of nodes to machines that are listed by rank.
func Ranks(nodes int) placement.Assignment {
	at := make(placement.Assignment, nodes)
	for i := range at {
		at[i] = int32(i) //nolint:gosec // few
	}
	return at
}

// Enough reports whether machines have enough free capacity in total for a number of nodes.
func Enough(machines []*record.PoolMachine, hold apitypes.Capacity, nodes int) bool {
	var free, all apitypes.Capacity
	for _, m := range machines {
		left := m.Free()
		if !strings.EqualFold(left.Accelerator, hold.Accelerator) {
			if hold.Accelerators > 0 {
				continue
			}
			left.Accelerator, left.Accelerators = "", 0
		}
		free.Add(left)
	}
	for range nodes {
		all.Add(hold)
	}
	return record.Fits(all, free)
}

// MakeRoom finds room for a task on the given machines. It may make running tasks leave, for a loss below mostUSD. It
// returns nil if that is not possible. If the task fits without that, no task leaves. For a task of one node, the
// loss is the minimum over all ways with at most placement.MostLeave leaving tasks. For several nodes, room is made
// for one after the other, each with minimum loss.
func MakeRoom(machines []*record.PoolMachine, task Task, runs []RunningTask, mostUSD float64) (*Room, error) {
	space := &Space{}
	space.Accelerator(task.Hold.Accelerator)
	index := map[string]int32{}
	for i, m := range machines {
		space.Machine(m)
		index[m.ID] = int32(i) //nolint:gosec // machines in memory
	}
	p := &placement.Problem{}
	at := map[string]int{}
	for i := range runs {
		space.Accelerator(runs[i].Hold.Accelerator)
		at[runs[i].Cluster] = i
	}
	p.Resources = space.Resources()
	for i, m := range machines {
		bare := *m // without the tasks that may leave, which are instances of the problem
		bare.Uses = nil
		for _, use := range m.Uses {
			if _, may := at[use.Cluster]; !may {
				bare.Uses = append(bare.Uses, use)
			}
		}
		p.Shapes = append(p.Shapes, placement.Shape{Capacity: space.Free(&bare)})
		p.Machines = append(p.Machines, placement.Machine{Name: m.ID, Shape: i})
	}
	p.Apps = append(p.Apps, placement.App{Name: "task", Demand: space.Demand(task.Hold, task.May)})
	p.Rules = append(p.Rules, placement.Rule{A: 0, B: 0, Max: 1})
	var nodes []int32
	for n := range task.Nodes {
		nodes = append(nodes, int32(n)) //nolint:gosec // few
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("node ", n), Machine: placement.Unplaced})
	}
	for i := range runs {
		app := int32(len(p.Apps)) //nolint:gosec // few
		p.Apps = append(p.Apps, placement.App{Name: runs[i].Cluster, Demand: space.Demand(runs[i].Hold, runs[i].May)})
		p.Instances = append(p.Instances, placement.Instance{Name: runs[i].Cluster, App: app,
			Machine: index[runs[i].Machine]})
	}
	network, err := placement.New(p, placement.Options{})
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	found := network.MakeRoom(nodes, mostUSD, func(i int32) placement.Loss {
		if int(i) < task.Nodes {
			return placement.Loss{Move: math.Inf(1), Leave: math.Inf(1)}
		}
		r := &runs[int(i)-task.Nodes]
		return placement.Loss{Move: r.MoveUSD, Leave: r.LeaveUSD}
	})
	if found == nil {
		return nil, nil
	}
	out := &Room{LossUSD: found.Loss}
	for _, m := range found.Machines {
		out.Hosts = append(out.Hosts, machines[m].ID)
	}
	for _, move := range found.Moves {
		l := Leaving{Runs: &runs[int(move.Instance)-task.Nodes]}
		if move.To != placement.Unplaced {
			l.To = machines[move.To].ID
		}
		out.Leaves = append(out.Leaves, l)
	}
	return out, nil
}
