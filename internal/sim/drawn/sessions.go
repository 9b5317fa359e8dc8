package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// sharePolicy is the fraction of worlds with a custom scheduling policy.
const sharePolicy = 0.35

// sharePacked is the fraction of worlds in which all jobs want pools and running tasks are moved. shareMoved is the
// fraction of the other worlds with a custom policy in which tasks are moved.
const (
	sharePacked = 0.06
	shareMoved  = 0.4
)

// Rules are the rules by which the sessions of a world decide, and the jobs and machines for which these rules have
// an effect.
type Rules struct {
	Policy *scheduler.Policy // nil: the sessions' default
	Packed bool              // all jobs want pools
	Packs  timeline.Random   // draws the jobs of packed worlds
	rand   timeline.Random
}

// NewRules draws the rules of a world. The other draws do not depend on them, except in packed worlds. Worlds whose
// deadlines must be met are never packed.
func NewRules(seed uint64, steady, punctual bool, broken breaks.Kind) Rules {
	x := Rules{rand: timeline.NewRandom(seed, "policy"), Packs: timeline.NewRandom(seed, "packed")}
	has := x.rand.Chance(sharePolicy)
	moves := timeline.NewRandom(seed, "moved").Chance(shareMoved) && broken == ""
	x.Packed = x.Packs.Chance(sharePacked) && !steady && !punctual && broken == "" ||
		broken == breaks.Roomless
	switch {
	case steady:
		return x
	case has || broken.Policies():
		x.Policy = Policy(x.rand, broken == breaks.Nightless)
	case x.Packed:
		x.Policy = session.OwnPolicy()
	}
	if x.Policy != nil && (moves || x.Packed) {
		x.Policy.Actions = append(x.Policy.Actions, scheduler.Moves)
	}
	return x
}

// Job draws the namespace of a job.
func (x *Rules) Job(j *dag.Job) {
	if x.Policy != nil {
		j.Namespace = timeline.Pick(x.rand, []string{"", "ann", "bob"})
	}
}

// Labels draws the labels of a pool machine: its location and time window.
func (x *Rules) Labels(placed timeline.Random) map[string]string {
	if x.Policy == nil {
		if !placed.Chance(0.5) {
			return nil
		}
		return map[string]string{"rack": timeline.Pick(placed, []string{"r1", "r2"}),
			"zone": timeline.Pick(placed, []string{"z1", "z2", ""})}
	}
	labels := map[string]string{"rack": timeline.Pick(x.rand, []string{"r1", "r2"})}
	if x.rand.Chance(0.4) {
		labels[record.LabelWindow] = timeline.Pick(x.rand, []string{"some", "some", "none"})
	}
	return labels
}
