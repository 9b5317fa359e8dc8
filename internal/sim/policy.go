package sim

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
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
	if opt.steady || !has && !opt.Break.policies() {
		return x
	}
	x.policy = session.OwnPolicy()
	if x.rand.Chance(0.5) {
		x.policy.Actions = append([]string{"enqueue"}, x.policy.Actions...)
	}
	if x.rand.Chance(0.4) {
		x.policy.Actions = append(x.policy.Actions, "reserve", "backfill")
	}
	add := func(name string, chance float64, args scheduler.Args) {
		if x.rand.Chance(chance) {
			x.policy.Tiers[1] = append(x.policy.Tiers[1], scheduler.PluginConfig{Name: name, Args: args})
		}
	}
	add("namespace", 0.5, nil)
	add("usage", 0.5, nil)
	add("nodeorder", 0.3, nil)
	add("binpack", 0.3, nil)
	add("topology", 0.4, nil)
	from := time.Duration(x.rand.IntN(24)) * time.Hour
	to := (from + time.Duration(1+x.rand.IntN(20))*time.Hour) % (24 * time.Hour)
	chance := 0.5
	if opt.Break == Nightless {
		chance = 1
	}
	add("tdm", chance, scheduler.Args{"windows": map[string]scheduler.Window{
		"some": {From: from, To: to, Zone: time.UTC}}})
	return x
}

// policies says whether the break is of something that takes a policy.
func (b Break) policies() bool { return slices.Contains([]Break{Nightless, Nameless}, b) }

// job says whose a job is.
func (x *ruled) job(j *dag.Job) {
	if x.policy != nil {
		j.Namespace = timeline.Pick(x.rand, []string{"", "ann", "bob"})
	}
}

// machine says where a machine of a pool stands, and at which hours it is to be had.
func (x *ruled) machine(m *poolMachine) {
	if x.policy == nil {
		return
	}
	m.report.Labels = map[string]string{"rack": timeline.Pick(x.rand, []string{"r1", "r2"})}
	if x.rand.Chance(0.4) {
		m.report.Labels[record.LabelWindow] = timeline.Pick(x.rand, []string{"some", "some", "none"})
	}
}
