package sim

import (
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// sharePolicy is the share of worlds whose sessions follow a policy of somebody's own.
const sharePolicy = 0.35

// sharePacked is the share of worlds in which pools are all there is to want, and what runs is moved; shareMoved the
// share of other worlds with a policy of their own in which it is.
const (
	sharePacked = 0.06
	shareMoved  = 0.4
)

// ruled is how the sessions of a world decide, and what it takes of jobs and machines for that to matter.
type ruled struct {
	rand   timeline.Random
	policy *scheduler.Policy // nil: as sessions decide by themselves
	packed bool
	packs  timeline.Random // of the jobs then
}

// drawRules draws them. Nothing else that is drawn changes by it, but in worlds that are packed, which those are not in
// which deadlines are to be kept.
func drawRules(seed uint64, opt Options, punctual bool) ruled {
	x := ruled{rand: timeline.NewRandom(seed, "policy"), packs: timeline.NewRandom(seed, "packed")}
	has := x.rand.Chance(sharePolicy)
	moves := timeline.NewRandom(seed, "moved").Chance(shareMoved) && opt.Break == ""
	x.packed = x.packs.Chance(sharePacked) && !opt.steady && !punctual && opt.Break == "" ||
		opt.Break == breaks.Roomless
	switch {
	case opt.steady:
		return x
	case has || opt.Break.Policies():
		x.policy = drawn.Policy(x.rand, opt.Break == breaks.Nightless)
	case x.packed:
		x.policy = session.OwnPolicy()
	}
	if x.policy != nil && (moves || x.packed) {
		x.policy.Actions = append(x.policy.Actions, scheduler.Moves)
	}
	return x
}

// job says whose a job is.
func (x *ruled) job(j *dag.Job) {
	if x.policy != nil {
		j.Namespace = timeline.Pick(x.rand, []string{"", "ann", "bob"})
	}
}

// machine says where a machine of a pool stands, and at which hours it is to be had.
func (x *ruled) machine(m *poolMachine) {
	if x.policy == nil {
		if r := m.w.rand.placed; r.Chance(0.5) {
			m.report.Labels = map[string]string{"rack": timeline.Pick(r, []string{"r1", "r2"}),
				"zone": timeline.Pick(r, []string{"z1", "z2", ""})}
		}
		return
	}
	m.report.Labels = map[string]string{"rack": timeline.Pick(x.rand, []string{"r1", "r2"})}
	if x.rand.Chance(0.4) {
		m.report.Labels[record.LabelWindow] = timeline.Pick(x.rand, []string{"some", "some", "none"})
	}
}
