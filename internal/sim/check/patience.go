package check

import (
	"cmp"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// noPlan is since when a job has been told that there is no plan for it, and whether that was ever for more than blocks
// that end.
type noPlan struct {
	since  time.Time
	closed bool
}

// Infeasible notes that a job was told that there is no plan for it: it may fail for that, unless there is one as soon
// as blocks have ended.
func (c *Checker) Infeasible(name string, opens bool) {
	n, told := c.noPlan[name]
	if !told {
		n.since = c.Now
	}
	n.closed = n.closed || !opens
	c.noPlan[name] = n
}

// checkPatience checks that a job that failed for want of a plan has waited for blocks as long as it is to.
func (c *Checker) checkPatience(s *Job, n noPlan) {
	spec := s.user.Spec
	if n.closed || spec.Infeasible != dag.Retry || !strings.HasPrefix(s.Record.Reason, "no feasible plan") {
		return
	}
	if waited := s.ending.at.Sub(n.since); waited < cmp.Or(spec.Patience, c.cfg.Patience) {
		c.Violatef(InvPatience, "%s failed after %v, though its places were merely blocked: %s", s.ID, waited,
			s.Record.Reason)
	}
}
