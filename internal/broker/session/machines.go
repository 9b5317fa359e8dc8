package session

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/placement"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// A policy may contain plugins that choose machines of pools: they score nodes, keep gangs close together, or divide
// machines by time. With such plugins, a second scheduler session runs over the machines. It takes the tasks that the
// first session (over quotas) has bound, in the same order. Without such plugins, pkg/placement packs all tasks at
// once.

// The names of plugins that choose machines. predicates is always active.
const (
	predicates = "predicates"
	topology   = "topology"
	tdm        = "tdm"
)

func machinePlugins() []string { return []string{"nodeorder", "binpack", topology, tdm} }

// machinePolicy returns the part of a policy that is about machines, or nil if there is none.
func machinePolicy(p *scheduler.Policy) *scheduler.Policy {
	out := &scheduler.Policy{Actions: []string{"allocate"}}
	said := false
	for _, tier := range p.Tiers {
		var kept []scheduler.PluginConfig
		for _, conf := range tier {
			if slices.Contains(machinePlugins(), conf.Name) {
				kept, said = append(kept, conf), true
			}
		}
		out.Tiers = append(out.Tiers, kept)
	}
	if !said {
		return nil
	}
	out.Tiers = append(out.Tiers, []scheduler.PluginConfig{{Name: predicates}})
	return out
}

// windows are the time windows that a policy defines.
func windows(p *scheduler.Policy) map[string]scheduler.Window {
	for _, tier := range p.Tiers {
		for _, conf := range tier {
			if conf.Name == tdm {
				return conf.Args.Windows("windows")
			}
		}
	}
	return nil
}

// hasArgument reports whether a policy sets an argument of a plugin.
func hasArgument(p *scheduler.Policy, plugin, setting string) bool {
	for _, tier := range p.Tiers {
		for _, conf := range tier {
			if _, said := conf.Args[setting]; conf.Name == plugin && said {
				return true
			}
		}
	}
	return false
}

// WindowClosed reports whether a running task must leave a machine now, because the time window in the machine's
// label is closed. It also returns the name of that window. It ignores windows that the policy does not define.
func WindowClosed(p *scheduler.Policy, labels map[string]string, now time.Time) (window string, closed bool) {
	w, named := windows(p)[labels[record.LabelWindow]]
	if !named {
		return "", false
	}
	_, open := w.Open(now)
	return labels[record.LabelWindow], !open
}

// poolQueue is the only queue of a session over machines. heldThere is the job that represents all tasks that run
// there.
const (
	poolQueue  = "pool"
	runningJob = "held"
)

// kindLabel is the label by which a session over machines knows the class of a machine.
const kindLabel = "tradewind/class"

// arrange places as many tasks as possible on machines of some partitions of a pool, by the policy, in the order in
// which the tasks were bound. The tasks in before have placement rules and were placed first; their machines are
// excluded.
func (s *Session) arrange(p *record.PoolSeen, parts []int, wants, before []*want, policy *scheduler.Policy) error {
	wants = slices.DeleteFunc(slices.Clone(wants), func(w *want) bool { return slices.Contains(before, w) })
	k := &packing{}
	if err := s.machines(k, p, parts); err != nil || len(k.machines) == 0 || len(wants) == 0 {
		return err
	}
	for _, w := range before {
		k.give(w.a.pool)
	}
	session, err := scheduler.Open(k.nodes(policy, wants, s.u.Now), policy, scheduler.WithGuards())
	if err != nil {
		return record.Final(fmt.Errorf("broker: pool %s: %w", p.Name, err))
	}
	session.Run()
	at := make([]placement.Assignment, len(wants))
	for _, bind := range session.Close().Binds {
		i, rank := indexOf(bind.Job), indexOf(bind.Task)
		if at[i] == nil {
			at[i] = make(placement.Assignment, wants[i].a.nodes)
		}
		at[i][rank] = int32(indexOf(bind.Node)) //nolint:gosec // a machine's index
	}
	for i, w := range wants {
		if at[i] != nil { // then every node has a machine: the minimum of the job is all of its nodes
			w.a.pool = k.pooled(p, w, at[i])
		}
	}
	return nil
}

func indexOf(name string) int {
	i, _ := strconv.Atoi(name) // nodes and jobOf write these names
	return i
}

// nodes describes machines and tasks to the scheduler. Their names are their indexes.
func (k *packing) nodes(policy *scheduler.Policy, wants []*want, now time.Time) *scheduler.Snapshot {
	x := &scheduler.Snapshot{
		Now: now, Resources: []string{"cpu", "memory", "tasks", "gpu"}, GPU: poolfit.NodeGPU,
		Units:  poolfit.NodeUnits(),
		Queues: []scheduler.Queue{{Name: poolQueue}},
	}
	named, levels := windows(policy), poolfit.Levels(k.machines)
	together := len(levels)
	if hasArgument(policy, topology, "depth") {
		together = 0 // the plugin's own depth applies
	}
	there := scheduler.Job{ID: runningJob, Queue: poolQueue, Phase: scheduler.Started, Kept: true}
	for i, m := range k.machines {
		if !slices.Contains(k.classes, m.Class()) {
			k.classes = append(k.classes, m.Class())
		}
		n := scheduler.Node{Name: strconv.Itoa(i), Labels: map[string]string{kindLabel: k.kindOf(m)},
			Capacity: poolfit.Has(m.Capacity, record.MaxUses), Devices: int(m.Capacity.Accelerators),
			Topology: poolfit.LocationOf(m, levels)}
		if _, said := named[m.Labels[record.LabelWindow]]; said {
			n.Window = m.Labels[record.LabelWindow]
		}
		x.Nodes = append(x.Nodes, n)
		if task, uses := poolfit.Held(m); uses {
			task.Node = n.Name
			task.ID = n.Name
			there.Tasks = append(there.Tasks, task)
		}
	}
	if len(there.Tasks) > 0 {
		x.Jobs = append(x.Jobs, there)
	}
	for i, w := range wants {
		x.Jobs = append(x.Jobs, k.jobOf(i, w, together))
	}
	return x
}

// kindOf numbers the class of a machine.
func (k *packing) kindOf(m *record.PoolMachine) string {
	return strconv.Itoa(slices.Index(k.classes, m.Class()))
}

// jobOf describes a task to the scheduler: as a gang of its nodes, each on another machine.
func (k *packing) jobOf(i int, w *want, together int) scheduler.Job {
	name := strconv.Itoa(i)
	spec := &scheduler.Spec{Request: poolfit.Needs(w.hold, 1), Devices: int(math.Ceil(w.hold.Accelerators))}
	may := scheduler.Term{Key: kindLabel, Op: scheduler.In}
	for c, class := range k.classes {
		if _, suits := w.machines[class]; suits {
			may.Values = append(may.Values, strconv.Itoa(c))
		}
	}
	spec.Affinity = []scheduler.Term{may}
	j := scheduler.Job{ID: name, Queue: poolQueue, Phase: scheduler.Started, Min: w.a.nodes, Kept: !w.a.saves()}
	if w.a.nodes > 1 {
		spec.Labels, spec.Apart = map[string]string{"task": name}, []scheduler.Pair{{Key: "task", Value: name}}
		j.Close.Depth = together
	}
	for rank := range w.a.nodes {
		j.Tasks = append(j.Tasks, scheduler.Task{ID: strconv.Itoa(rank), Spec: spec})
	}
	return j
}

// saves reports whether a task writes checkpoints. Such a task may be on a machine that it will lose at a known time.
func (a *admission) saves() bool {
	return a.spec != nil && a.spec.Tasks[a.waiting.Task].Checkpoint != nil
}
