package session

import (
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Namespaces share capacity across queues (plugin namespace). The past use of queues and namespaces may count in
// addition to their current use (plugin usage). A session passes both to the scheduler if its policy has these
// plugins.

// sharing is the scheduler's input about namespaces and past use.
type sharing struct {
	asked    bool          // the policy needs namespaces or past use
	halfLife time.Duration // of past use; 0 if the policy ignores it
	rest     map[string]map[*apitypes.Queue]scheduler.Vector
}

func (s *Session) sharing() sharing {
	out := sharing{halfLife: HalfLife(s.Policy), rest: map[string]map[*apitypes.Queue]scheduler.Vector{}}
	out.asked = out.halfLife > 0 || hasPlugin(s.Policy, namespaces)
	return out
}

// hasPlugin reports whether a policy contains a plugin.
func hasPlugin(p *scheduler.Policy, plugin string) bool {
	return slices.ContainsFunc(p.Tiers, func(tier []scheduler.PluginConfig) bool {
		return slices.ContainsFunc(tier, func(conf scheduler.PluginConfig) bool { return conf.Name == plugin })
	})
}

// share adds namespaces and past use to the snapshot.
func (x *scene) share() {
	if !x.sharing.asked {
		return
	}
	past := map[string]apitypes.Held{}
	for _, q := range x.tree {
		for _, s := range q.Spaces {
			held := map[*apitypes.Queue]scheduler.Vector{}
			if x.sharing.rest[s.Name] != nil {
				held = x.sharing.rest[s.Name]
			}
			held[q] = x.more.held(s.Tasks, s.VCPU, s.Use)
			x.sharing.rest[s.Name] = held
			past[s.Name] = past[s.Name].Plus(record.AdvancePast(s.Past, x.Now, s.Held, x.sharing.halfLife).Held)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(past)) {
		x.Namespaces = append(x.Namespaces, scheduler.Namespace{Name: name, Usage: x.usage(past[name])})
	}
	if x.sharing.halfLife == 0 {
		return
	}
	for i := range x.Queues {
		for _, q := range x.tree {
			switch x.Queues[i].Name {
			case q.Name:
				x.Queues[i].Usage = x.usage(x.past(q))
			case q.Name + record.Own:
				x.Queues[i].Usage = x.usage(x.own(q))
			}
		}
	}
}

// own returns the past use of a queue without the queues below it.
func (x *scene) own(q *apitypes.Queue) apitypes.Held {
	return record.AdvancePast(q.Past, x.Now, apitypes.Held{Tasks: float64(q.Running), VCPU: q.VCPU, Use: q.Use},
		x.sharing.halfLife).Held
}

// past returns the past use of a queue, including the queues below it.
func (x *scene) past(q *apitypes.Queue) apitypes.Held {
	sum := x.own(q)
	for _, below := range x.tree {
		if below.Parent == q.Name && below != q {
			sum = sum.Plus(x.past(below))
		}
	}
	return sum
}

// usage converts past use to the units of the scheduler.
func (x *scene) usage(h apitypes.Held) scheduler.Usage {
	u := scheduler.Usage{At: x.Now}
	for i, v := range x.more.held(h.Tasks, h.VCPU, h.Use) {
		u.Held[i] = float64(v)
	}
	return u
}

// spend makes a job of a namespace represent a part of the namespace's use of a queue.
func (x *scene) spend(q *apitypes.Queue, namespace string, use scheduler.Vector) {
	if rest := x.sharing.rest[namespace]; rest != nil {
		rest[q] = rest[q].Minus(use).Positive()
	}
}

// addNamespaceUse adds jobs for the use of namespaces that no job represents yet. It returns the remaining use of the
// queue.
func (x *scene) addNamespaceUse(q *apitypes.Queue, left scheduler.Vector) scheduler.Vector {
	for _, name := range slices.Sorted(maps.Keys(x.sharing.rest)) {
		use := x.sharing.rest[name][q]
		if use.IsZero() || !use.Fits(left) {
			continue
		}
		j := held("use of "+q.Name+" by "+name, record.Leaf(q), use)
		j.Namespace = name
		x.Jobs = append(x.Jobs, j)
		left = left.Minus(use)
	}
	return left
}

// namespaceOf returns the namespace of a job, or "" if the policy does not need it.
func (x *scene) namespaceOf(j record.Job) string {
	if !x.sharing.asked {
		return ""
	}
	return j.Namespace
}
