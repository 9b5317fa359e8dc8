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

// A policy may say how machines of pools are chosen: by plugins that score nodes, keep gangs close or divide machines
// by time. Then a second session of the scheduler is over the machines, with the tasks that the first, over quotas, has
// bound, in its order. Without such plugins pkg/placement packs all of them at once.

// The plugins that say how machines are chosen; predicates hold whether or not a policy says so.
const (
	predicates = "predicates"
	topology   = "topology"
	tdm        = "tdm"
)

func machinePlugins() []string { return []string{"nodeorder", "binpack", topology, tdm} }

// machinePolicy is what a policy says of machines; nil where that is nothing.
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

// windows are those that a policy names.
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

// says whether a policy has a setting of a plugin.
func says(p *scheduler.Policy, plugin, setting string) bool {
	for _, tier := range p.Tiers {
		for _, conf := range tier {
			if _, said := conf.Args[setting]; conf.Name == plugin && said {
				return true
			}
		}
	}
	return false
}

// WindowClosed says whether a policy has what runs on a machine go now, as the time window that its label names is not
// open, and which window that is. Windows that the policy does not name mean nothing.
func WindowClosed(p *scheduler.Policy, labels map[string]string, now time.Time) (window string, closed bool) {
	w, named := windows(p)[labels[record.LabelWindow]]
	if !named {
		return "", false
	}
	_, open := w.Open(now)
	return labels[record.LabelWindow], !open
}

// pen is the one queue of a session over machines; heldThere is its job that stands for what runs there.
const (
	pen       = "pool"
	heldThere = "held"
)

// kindLabel is the label that tells a session over machines which class a machine is of.
const kindLabel = "tradewind/class"

// arrange places tasks on machines of some partitions of a pool as a policy says, each that it can, the first to be
// bound first. Those that rules of placement know of are placed before; what they were given is not there for others.
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
		if at[i] != nil { // then all of it: its minimum is all of its nodes
			w.a.pool = k.pooled(p, w, at[i])
		}
	}
	return nil
}

func indexOf(name string) int {
	i, _ := strconv.Atoi(name) // written below
	return i
}

// nodes lays machines and tasks out for the scheduler. Names are their indexes.
func (k *packing) nodes(policy *scheduler.Policy, wants []*want, now time.Time) *scheduler.Snapshot {
	x := &scheduler.Snapshot{
		Now: now, Resources: []string{"cpu", "memory", "tasks", "gpu"}, GPU: poolfit.NodeGPU,
		Units:  poolfit.NodeUnits(),
		Queues: []scheduler.Queue{{Name: pen}},
	}
	named, levels := windows(policy), poolfit.Levels(k.machines)
	together := len(levels)
	if says(policy, topology, "depth") {
		together = 0 // it says itself how close
	}
	there := scheduler.Job{ID: heldThere, Queue: pen, Phase: scheduler.Started, Kept: true}
	for i, m := range k.machines {
		if !slices.Contains(k.classes, m.Class()) {
			k.classes = append(k.classes, m.Class())
		}
		n := scheduler.Node{Name: strconv.Itoa(i), Labels: map[string]string{kindLabel: k.kindOf(m)},
			Capacity: poolfit.Has(m.Capacity, record.MaxUses), Devices: int(m.Capacity.Accelerators),
			Topology: poolfit.Standing(m, levels)}
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

// jobOf is what the scheduler is told of a task: a gang of its nodes, each on a machine of its own.
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
	j := scheduler.Job{ID: name, Queue: pen, Phase: scheduler.Started, Min: w.a.nodes, Kept: !w.a.saves()}
	if w.a.nodes > 1 {
		spec.Labels, spec.Apart = map[string]string{"task": name}, []scheduler.Pair{{Key: "task", Value: name}}
		j.Close.Depth = together
	}
	for rank := range w.a.nodes {
		j.Tasks = append(j.Tasks, scheduler.Task{ID: strconv.Itoa(rank), Spec: spec})
	}
	return j
}

// saves says whether a task saves its work as it goes, so that it may lose its machines at a known time.
func (a *admission) saves() bool {
	return a.spec != nil && a.spec.Tasks[a.waiting.Task].Checkpoint != nil
}
