package session

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// CheckPolicy returns a *scheduler.PolicyError if sessions over queues cannot follow a policy.
func CheckPolicy(p *scheduler.Policy) error {
	if !slices.Contains(p.Actions, allocate) {
		return p.Wrong("actions", "without allocate no task is ever admitted", "add allocate")
	}
	return nil
}

// ReadPolicy reads a policy from the content of a file and checks it with CheckPolicy. Errors name the line and the
// field.
func ReadPolicy(file string, body []byte) (*scheduler.Policy, error) {
	p, err := scheduler.ReadPolicy(file, body)
	if err != nil {
		return nil, err
	}
	return p, scheduler.PolicyInFile(file, CheckPolicy(p))
}

// PolicyNote describes an action or plugin of a policy that has no effect in some part of the broker.
type PolicyNote struct {
	Name   string `json:"name"`
	Where  string `json:"where"`
	Reason string `json:"reason"`
}

// PolicyNotes returns notes about the parts of a policy that have no effect. Sessions decide on quotas. They choose
// machines only in pools, where the machines are known.
func PolicyNotes(p *scheduler.Policy) []PolicyNote {
	const (
		bought     = "machines that are bought"
		everywhere = "everywhere"
		planned    = "the plan determines which machine a task gets there"
	)
	why := map[string]PolicyNote{
		"nodeorder": {Where: bought, Reason: planned}, "binpack": {Where: bought, Reason: planned},
		topology:   {Where: bought, Reason: planned + ", and within which region or zone a gang is"},
		tdm:        {Where: bought, Reason: "they are bought for a task at any time, so they need no time windows"},
		actionMove: {Where: bought, Reason: "a bought machine only has room for its own task"},
	}
	reserves, fills := slices.Contains(p.Actions, actionReserve), slices.Contains(p.Actions, actionBackfill)
	if reserves && !fills {
		why[actionReserve] = PolicyNote{Where: everywhere, Reason: "reserve only tells backfill when tasks that have " +
			"waited too long can start: add backfill"}
	}
	if fills && !reserves {
		why[actionBackfill] = PolicyNote{Where: everywhere, Reason: "backfill needs reserve to know when tasks that " +
			"have waited too long can start: add reserve"}
	}
	names := slices.Clone(p.Actions)
	for _, tier := range p.Tiers {
		for _, conf := range tier {
			names = append(names, conf.Name)
		}
	}
	var out []PolicyNote
	for _, name := range names {
		if note, does := why[name]; does {
			note.Name = name
			out = append(out, note)
		}
	}
	return out
}

// OwnPolicy returns the default policy: late and urgent tasks first, then the job that holds the least; queues share
// by weight or by what they deserve.
func OwnPolicy() *scheduler.Policy {
	return &scheduler.Policy{
		Actions: []string{"allocate", "preempt", "reclaim"},
		Tiers:   [][]scheduler.PluginConfig{{{Name: "sla"}, {Name: "priority"}}, {{Name: "drf"}, {Name: "capacity"}}},
	}
}

// Names in policies. usage is the plugin that counts past use, namespaces the one that shares between users.
const (
	usage      = "usage"
	namespaces = "namespace"
	enqueue    = "enqueue"
	allocate   = "allocate"
)

// HalfLife is the time after which past use of queues and namespaces counts half, or 0 if the policy ignores past use.
func HalfLife(p *scheduler.Policy) time.Duration {
	for _, tier := range p.Tiers {
		for _, conf := range tier {
			if conf.Name == usage {
				return conf.Args.Duration("halfLife", scheduler.DefaultHalfLife)
			}
		}
	}
	return 0
}

// follows reports whether the session's policy has an action.
func (s *Session) follows(action string) bool { return slices.Contains(s.Policy.Actions, action) }

// open opens a scheduler session for one action of the policy. Quotas and gangs are always enforced, with any policy.
func (s *Session) open(snap *scheduler.Snapshot, action string) (*scheduler.Session, error) {
	p := only(s.Policy, action, s.Config.OverdueAfter)
	if action == allocate && s.follows(enqueue) {
		p.Actions = []string{enqueue, allocate}
	}
	return scheduler.Open(snap, p, scheduler.WithGuards())
}

// only returns the policy reduced to one action. If the policy does not state when a task is late, patience applies.
func only(p *scheduler.Policy, action string, patience time.Duration) *scheduler.Policy {
	out := &scheduler.Policy{Actions: []string{action}}
	for _, tier := range p.Tiers {
		tier = slices.Clone(tier)
		for i, conf := range tier {
			if _, said := conf.Args["maxWait"]; conf.Name == "sla" && !said {
				tier[i].Args = scheduler.Args{"maxWait": patience}
			}
		}
		out.Tiers = append(out.Tiers, tier)
	}
	return out
}

// aboutQueues reports whether a reason is about queues. Reasons about nodes have no meaning here, because clouds are
// unlimited.
func aboutQueues(r scheduler.Reason) bool {
	return slices.Contains([]string{"capacity", "proportion", "gang", "session"}, r.Plugin)
}
