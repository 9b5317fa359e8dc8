package check

import (
	"cmp"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// noPlan is the time since which a job has had no feasible plan, and whether that ever had another cause than blocks
// that end.
type noPlan struct {
	since  time.Time
	closed bool
}

// Infeasible records that a job has no feasible plan at a time, that of the planner's input. The job may fail for that,
// unless opens is true: there would be a plan once blocks have ended.
func (c *Checker) Infeasible(name string, at time.Time, opens bool) {
	n, told := c.noPlan[name]
	if !told {
		n.since = at
	}
	n.closed = n.closed || !opens
	c.noPlan[name] = n
}

// checkPatience checks a job that failed for lack of a plan: it must have waited for blocks as long as configured.
func (c *Checker) checkPatience(s *Job, n noPlan) {
	spec := s.user.Spec
	if n.closed || spec.Infeasible != dag.Retry || !strings.HasPrefix(s.Record.Reason, "no feasible plan") {
		return
	}
	if waited := s.ending.at.Sub(n.since); waited < cmp.Or(spec.Patience, c.cfg.Patience) {
		c.Violatef(InvPatience, "%s failed after %v, though its places were only blocked: %s", s.ID, waited,
			s.Record.Reason)
	}
}
