package session

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/scheduler/policy"
)

// CheckPolicy says why sessions over queues can not follow a policy: a *scheduler.PolicyError.
func CheckPolicy(p *scheduler.Policy) error {
	if !slices.Contains(p.Actions, allocate) {
		return p.Wrong("actions", "without allocate no task is ever admitted", "add allocate")
	}
	return nil
}

// ReadPolicy reads a policy from the content of a file, as sessions would follow it. An error tells its line and field.
func ReadPolicy(file string, body []byte) (*scheduler.Policy, error) {
	p, err := scheduler.ReadPolicy(file, body)
	if err != nil {
		return nil, err
	}
	return p, policy.InFile(file, CheckPolicy(p))
}

// PolicyNote is an action or a plugin of a policy that does nothing somewhere in a broker.
type PolicyNote struct {
	Name   string `json:"name"`
	Where  string `json:"where"`
	Reason string `json:"reason"`
}

// PolicyNotes tells what of a policy does nothing, and where: sessions are over quotas, and choose machines where it is
// known which ones there are, in pools.
func PolicyNotes(p *scheduler.Policy) []PolicyNote {
	const (
		bought     = "machines that are bought"
		everywhere = "everywhere"
		planned    = "the plan says which machine a task gets there"
	)
	why := map[string]PolicyNote{
		"nodeorder": {Where: bought, Reason: planned}, "binpack": {Where: bought, Reason: planned},
		topology:   {Where: bought, Reason: planned + ", and within which region or zone a gang is"},
		tdm:        {Where: bought, Reason: "they are bought when they are needed, and have no hours"},
		actionMove: {Where: bought, Reason: "one has room for its own task alone"},
	}
	reserves, fills := slices.Contains(p.Actions, actionReserve), slices.Contains(p.Actions, actionBackfill)
	if reserves && !fills {
		why[actionReserve] = PolicyNote{Where: everywhere, Reason: "quota is kept for what has waited for " +
			"too long by plugin sla; reserve says when that can go, for backfill to go by: add backfill"}
	}
	if fills && !reserves {
		why[actionBackfill] = PolicyNote{Where: everywhere, Reason: "it is not known when what has " +
			"waited for too long can go: add reserve"}
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

// OwnPolicy is how sessions decide that nobody told otherwise: what has waited for too long and what is urgent first,
// then the job that holds the least, between queues that share by weight or by what they deserve.
func OwnPolicy() *scheduler.Policy {
	return &scheduler.Policy{
		Actions: []string{"allocate", "preempt", "reclaim"},
		Tiers:   [][]scheduler.PluginConfig{{{Name: "sla"}, {Name: "priority"}}, {{Name: "drf"}, {Name: "capacity"}}},
	}
}

// usage is the plugin that asks what was held over time, namespaces the one that shares between users.
const (
	usage      = "usage"
	namespaces = "namespace"
	enqueue    = "enqueue"
	allocate   = "allocate"
)

// HalfLife is how long a policy has what queues and namespaces held count half; 0 if it does not ask.
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

// follows says whether a session's policy has an action.
func (s *Session) follows(action string) bool { return slices.Contains(s.Policy.Actions, action) }

// open opens a session of the scheduler for one action under the session's policy. Quotas and gangs hold whatever the
// policy says.
func (s *Session) open(snap *scheduler.Snapshot, action string) (*scheduler.Session, error) {
	p := only(s.Policy, action, s.Config.OverdueAfter)
	if action == allocate && s.follows(enqueue) {
		p.Actions = []string{enqueue, allocate}
	}
	return scheduler.Open(snap, p, scheduler.WithGuards())
}

// only is a policy with one of its actions, and with the broker's own patience where it does not say how long too long
// is.
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

// aboutQueues says whether a reason of a session is. What it says of nodes means nothing here: clouds are endless.
func aboutQueues(r scheduler.Reason) bool {
	return slices.Contains([]string{"capacity", "proportion", "gang", "session"}, r.Plugin)
}
