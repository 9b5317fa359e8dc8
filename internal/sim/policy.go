package sim

import (
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// sharePolicy is the share of worlds whose sessions follow a policy of somebody's own.
const sharePolicy = 0.35

// ruled is how the sessions of a world decide, and what it takes of jobs and machines for that to matter.
type ruled struct {
	rand   timeline.Random
	policy *scheduler.Policy // nil: as sessions decide by themselves
}

// drawRules draws them. Nothing else that is drawn changes by it.
func drawRules(seed uint64, opt Options) ruled {
	x := ruled{rand: timeline.NewRandom(seed, "policy")}
	has := x.rand.Chance(sharePolicy)
	if opt.steady || !has && !opt.Break.Policies() {
		return x
	}
	x.policy = drawn.Policy(x.rand, opt.Break == breaks.Nightless)
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
