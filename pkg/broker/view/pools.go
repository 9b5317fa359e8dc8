package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// PoolView is a pool as users see it: the API's and the command line's JSON.
type PoolView struct {
	Name        string          `json:"name" doc:"Name of the pool"`
	Place       string          `json:"place,omitempty" doc:"Where its machines are, cloud:region"`
	USDPerHour  float64         `json:"usdPerHour" doc:"What an hour of a whole machine counts as, USD"`
	Partitions  int             `json:"partitions" doc:"Into how many records its machines are divided"`
	Description string          `json:"description,omitempty" doc:"What it is for"`
	Draining    bool            `json:"draining,omitempty" doc:"It gets nothing new"`
	Created     time.Time       `json:"created" doc:"When it was made"`
	Capacity    record.Capacity `json:"capacity" doc:"What its machines have in all; accelerators of all names together"`
	Used        record.Capacity `json:"used" doc:"What is in use of it"`
	Machines    []MachineView   `json:"machines" nullable:"false" doc:"Its machines, by ID"`
}

// MachineView is a machine of a pool as users see it.
type MachineView struct {
	ID       string            `json:"id" doc:"Name of the machine"`
	Type     string            `json:"type" doc:"Its type, which a task may ask for"`
	State    string            `json:"state" doc:"ready, busy, draining, drained, leaving, blocked, stale or lost"`
	Labels   map[string]string `json:"labels,omitempty" doc:"What it says of itself"`
	Capacity record.Capacity   `json:"capacity" doc:"What it has"`
	Used     record.Capacity   `json:"used" doc:"What is in use of it"`
	Joined   time.Time         `json:"joined" doc:"When it joined"`
	Seen     time.Time         `json:"seen" doc:"When it was last heard of, to about a minute"`
	Until    time.Time         `json:"blockedUntil,omitzero" doc:"Until when it gets nothing new, as it failed"`
	Reason   string            `json:"reason,omitempty" doc:"How it failed"`
	Tasks    []MachineTask     `json:"tasks" nullable:"false" doc:"What runs on it"`
}

// MachineTask is what one task has of a machine.
type MachineTask struct {
	Job     string          `json:"job" doc:"ID of the job"`
	JobName string          `json:"jobName,omitempty" doc:"Name of the job"`
	Task    string          `json:"task" doc:"Name of the task"`
	Cluster string          `json:"cluster" doc:"ID of its cluster"`
	Rank    int             `json:"rank" doc:"Rank of the machine in it"`
	Hold    record.Capacity `json:"hold" doc:"What it holds"`
	Since   time.Time       `json:"since" doc:"Since when"`
}

// Pools lists the pools with their machines and what runs on them.
func (b *Views) Pools(ctx context.Context) ([]PoolView, error) {
	u := b.txns.NewUnit(ctx, "api")
	pools, err := book.List[record.Pool](u, record.PartPools, "", 0)
	if err != nil {
		return nil, err
	}
	views := make([]PoolView, 0, len(pools))
	for _, p := range pools {
		v, err := b.poolView(u, p)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// PoolView loads a pool with its machines. It fails with ErrNotFound.
func (b *Views) PoolView(ctx context.Context, name string) (PoolView, error) {
	u := b.txns.NewUnit(ctx, "api")
	p, err := pool.LoadPool(u, name)
	if err != nil {
		return PoolView{}, err
	}
	return b.poolView(u, p)
}

func (b *Views) poolView(u *unit.Unit, p record.Pool) (PoolView, error) {
	v := PoolView{
		Name: p.Name, Place: p.Place, USDPerHour: p.USDPerHour, Partitions: p.Partitions, Description: p.Description,
		Draining: p.Draining, Created: p.Created, Machines: []MachineView{},
	}
	parts, err := b.pools.Parts(u.Ctx, p.Name)
	if err != nil {
		return v, err
	}
	for _, s := range parts {
		for _, m := range s.Machines {
			mv, err := b.machineView(u, m, s.Seen[m.ID])
			if err != nil {
				return v, err
			}
			v.Machines = append(v.Machines, mv)
			v.Capacity.Add(m.Capacity)
			v.Used.Add(mv.Used)
		}
	}
	slices.SortFunc(v.Machines, func(x, y MachineView) int { return strings.Compare(x.ID, y.ID) })
	return v, nil
}

func (b *Views) machineView(u *unit.Unit, m record.PoolMachine, seen time.Time) (MachineView, error) {
	v := MachineView{
		ID: m.ID, Type: m.Type, State: m.State(seen, b.txns.Config.Pool, u.Now), Labels: m.Labels, Capacity: m.Capacity,
		Used: m.Used(), Joined: m.Joined, Seen: seen, Tasks: []MachineTask{},
	}
	if u.Now.Before(m.BlockedUntil) {
		v.Until, v.Reason = m.BlockedUntil, m.Reason
	}
	for _, use := range m.Uses {
		t := MachineTask{Job: record.ClusterJob(use.Cluster), Cluster: use.Cluster, Rank: use.Rank, Hold: use.Hold,
			Since: use.Since}
		job, found, err := book.Get[record.Job](u, record.JobKey(t.Job))
		if err != nil {
			return v, err
		}
		if found {
			spec, err := u.Spec(job)
			if err != nil {
				return v, err
			}
			t.JobName = job.Name
			if i, _, ok := record.ClusterAttempt(use.Cluster); ok && i < len(spec.Tasks) {
				t.Task = spec.Tasks[i].Name
			}
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v, nil
}
