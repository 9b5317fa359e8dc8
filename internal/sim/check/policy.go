package check

import (
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Where sessions follow a policy of somebody's own, at every transaction:
const (
	// InvSpace: what a queue says that a namespace holds of it is what the attempts of its jobs hold.
	InvSpace = "what a namespace holds is its attempts'"
	// InvWindow: a machine that is to be had at certain hours is given work in those only, and such that saves it; when
	// they are over it goes on for no longer than it takes to save that.
	InvWindow = "a machine works in its hours"
)

// pastHours is for how long something may run after the hours of its machine are over: until the machine asks, its
// agent has saved what it has, and all of that has been tried again.
const pastHours = 90 * time.Minute

// policyChecker knows the policy and what of machines it speaks of.
type policyChecker struct {
	policy *scheduler.Policy // nil: sessions decide as they do by themselves
	labels map[string]map[string]string
	past   map[*Machine]time.Duration // for how long a machine has run on after its hours
}

// Follow tells the policy of a world.
func (c *Checker) Follow(p *scheduler.Policy) {
	c.policy = policyChecker{policy: p, labels: map[string]map[string]string{},
		past: map[*Machine]time.Duration{}}
}

// Labelled tells the labels of a machine of a pool.
func (c *Checker) Labelled(pool, machine string, labels map[string]string) {
	c.labels[pool+"/"+machine] = labels
	if c.policy.policy != nil {
		c.policy.labels[pool+"/"+machine] = labels
	}
}

// overtakes says for how long a task may wait before it is not overtaken any more.
func (c *Checker) overtakes() time.Duration {
	p := c.policy.policy
	if p != nil && slices.Contains(p.Actions, "reserve") && slices.Contains(p.Actions, "backfill") {
		return session.Overtaken * c.cfg.OverdueAfter
	}
	return c.cfg.OverdueAfter
}

// checkSpaces compares what a queue says of namespaces with the attempts of their jobs.
func (c *Checker) checkSpaces(q apitypes.Queue) {
	held := map[string]apitypes.Held{}
	for _, s := range c.order {
		if s.Record.Queue != q.Name || s.Record.Namespace == "" {
			continue
		}
		for _, a := range s.order {
			if !a.settled {
				one := apitypes.Held{Tasks: 1, VCPU: a.VCPU}
				held[s.Record.Namespace] = held[s.Record.Namespace].Plus(one)
			}
		}
	}
	for name, h := range held {
		c.Count("a namespace holds something")
		i := slices.IndexFunc(q.Spaces, func(s apitypes.Space) bool { return s.Name == name })
		if i < 0 || q.Spaces[i].Tasks != h.Tasks || q.Spaces[i].VCPU > h.VCPU+Rounding ||
			q.Spaces[i].VCPU < h.VCPU-Rounding {
			c.Violatef(InvSpace, "queue %s says of %s: %+v; its attempts hold %+v", q.Name, name, q.Spaces, h)
		}
	}
	for _, s := range q.Spaces {
		if held[s.Name].Tasks == 0 && s.Tasks != 0 {
			c.Violatef(InvSpace, "queue %s says that %s holds %+v, and it holds nothing", q.Name, s.Name, s.Held)
		}
	}
}

// checkAfterHours checks that nothing goes on on a machine whose hours are over.
func (c *Checker) checkAfterHours(m *Machine) {
	host, _, _ := strings.Cut(m.ID, "/")
	labels := c.policy.labels[m.Offer.Region+"/"+host]
	if labels[record.LabelWindow] == "" {
		return
	}
	if _, closed := session.WindowClosed(c.policy.policy, labels, c.Now); !closed {
		delete(c.policy.past, m)
		return
	}
	c.Count("runs on after its machine's hours")
	if c.policy.past[m] += lookEvery; c.policy.past[m] > pastHours {
		c.Violatef(InvWindow, "%s of %s runs on %v after the hours of its machine", m.ID, m.Cluster, c.policy.past[m])
	}
}

// checkHours checks that what a machine was just given it was given in its hours.
func (c *Checker) checkHours(pool string, before, m *record.PoolMachine) {
	labels := c.policy.labels[pool+"/"+m.ID]
	if labels[record.LabelWindow] == "" {
		return
	}
	for _, use := range m.Uses {
		window, closed := session.WindowClosed(c.policy.policy, labels, use.Since)
		if window == "" || before != nil && slices.ContainsFunc(before.Uses, func(u record.PoolUse) bool {
			return u.Agent() == use.Agent()
		}) {
			continue
		}
		c.Count("a machine is given work in its hours")
		s := c.Jobs[record.ClusterJob(use.Cluster)]
		if closed {
			c.Violatef(InvWindow, "%s/%s, of window %s, is given %s at %v", pool, m.ID, window, use.Cluster, use.Since)
		}
		task, _, _ := record.ClusterAttempt(use.Cluster)
		if s != nil && s.user != nil && s.user.Spec.Tasks[task].Checkpoint == nil {
			c.Violatef(InvWindow, "%s/%s, of window %s, is given %s, which can not save its work", pool, m.ID, window,
				use.Cluster)
		}
	}
}
