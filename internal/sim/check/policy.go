package check

import (
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// If sessions follow a custom policy, at every transaction:
const (
	// InvSpace: the use of a namespace in a queue's record is the sum over the attempts of its jobs.
	InvSpace = "a namespace holds its attempts"
	// InvWindow: a machine with a time window gets work only in its hours, and only work that can be saved. After its
	// hours the work continues only until it is saved.
	InvWindow = "a machine works in its hours"
)

// pastHours is the maximum time for which a task may run after the hours of its machine: until the machine calls, its
// agent has saved the work, and retries of both are done.
const pastHours = 90 * time.Minute

// policyChecker has the policy, and the labels of machines to which the policy applies.
type policyChecker struct {
	policy *scheduler.Policy // nil: the sessions' default
	labels map[string]map[string]string
	past   map[*Machine]time.Duration // how long a machine has run after its hours
}

// Follow sets the policy of a world.
func (c *Checker) Follow(p *scheduler.Policy) {
	c.policy = policyChecker{policy: p, labels: map[string]map[string]string{},
		past: map[*Machine]time.Duration{}}
}

// Labelled sets the labels of a pool machine.
func (c *Checker) Labelled(pool, machine string, labels map[string]string) {
	c.labels[pool+"/"+machine] = labels
	if c.policy.policy != nil {
		c.policy.labels[pool+"/"+machine] = labels
	}
}

// overtakeLimit returns the time for which a task may wait before it must not be overtaken any more.
func (c *Checker) overtakeLimit() time.Duration {
	p := c.policy.policy
	if p != nil && slices.Contains(p.Actions, "reserve") && slices.Contains(p.Actions, "backfill") {
		return session.Overtaken * c.cfg.OverdueAfter
	}
	return c.cfg.OverdueAfter
}

// checkSpaces compares a queue's records of namespaces with the attempts of their jobs.
func (c *Checker) checkSpaces(q apitypes.Queue) {
	held := map[string]apitypes.Held{}
	for _, s := range c.order {
		if s.Record.Queue != q.Name || s.Record.Namespace == "" {
			continue
		}
		for _, a := range s.order {
			if !a.settled && slots(a) > 0 {
				one := apitypes.Held{Tasks: float64(slots(a)), VCPU: a.VCPU}
				held[s.Record.Namespace] = held[s.Record.Namespace].Plus(one)
			}
		}
	}
	for name, h := range held {
		c.Count("a namespace holds something")
		i := slices.IndexFunc(q.Spaces, func(s apitypes.Space) bool { return s.Name == name })
		if i < 0 || q.Spaces[i].Tasks != h.Tasks || q.Spaces[i].VCPU > h.VCPU+Rounding ||
			q.Spaces[i].VCPU < h.VCPU-Rounding {
			c.Violatef(InvSpace, "queue %s records for %s: %+v, but its attempts hold %+v", q.Name, name, q.Spaces, h)
		}
	}
	for _, s := range q.Spaces {
		if held[s.Name].Tasks == 0 && s.Tasks != 0 {
			c.Violatef(InvSpace, "queue %s records that %s holds %+v, but it holds nothing", q.Name, s.Name, s.Held)
		}
	}
}

// checkAfterHours checks that no work continues on a machine after its hours.
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
	c.Count("runs after its machine's hours")
	if c.policy.past[m] += lookEvery; c.policy.past[m] > pastHours {
		c.Violatef(
			InvWindow,
			"%s of %s still runs %v after the hours of its machine",
			m.ID,
			m.Cluster,
			c.policy.past[m],
		)
	}
}

// checkHours checks that new assignments of a machine were made in its hours.
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
		c.Count("a machine gets work in its hours")
		s := c.Jobs[record.ClusterJob(use.Cluster)]
		if closed {
			c.Violatef(
				InvWindow,
				"%s/%s, of window %s, is assigned %s at %v",
				pool,
				m.ID,
				window,
				use.Cluster,
				use.Since,
			)
		}
		task, _, _ := record.ClusterAttempt(use.Cluster)
		if s != nil && s.user != nil && s.user.Spec.Tasks[task].Checkpoint == nil {
			c.Violatef(
				InvWindow,
				"%s/%s, of window %s, is assigned %s, which can not save its work",
				pool,
				m.ID,
				window,
				use.Cluster,
			)
		}
	}
}
