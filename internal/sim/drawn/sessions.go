package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
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

// Rules are how the sessions of a world decide, and what it takes of jobs and machines for that to matter.
type Rules struct {
	Policy *scheduler.Policy // nil: as sessions decide by themselves
	Packed bool              // pools are all there is to want
	Packs  timeline.Random   // of the jobs then
	rand   timeline.Random
}

// NewRules draws them. Nothing else that is drawn changes by it, but in worlds that are packed, which those are not in
// which deadlines are to be kept.
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

// Job says whose a job is.
func (x *Rules) Job(j *dag.Job) {
	if x.Policy != nil {
		j.Namespace = timeline.Pick(x.rand, []string{"", "ann", "bob"})
	}
}

// Labels say where a machine of a pool stands, and at which hours it is to be had.
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
