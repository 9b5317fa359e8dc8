package check

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// What was lost and waits for a new plan cannot go, so room that is promised meanwhile to what came after it stays
// promised; what waits with a plan of its own can, whatever plans are made after that.
func TestATaskCouldGoSinceItsPlanWasThere(t *testing.T) {
	entered, planned := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, c := range map[string]struct {
		minPlan, plan int
		want          time.Time
	}{
		"a plan from before":     {0, 3, entered},
		"the plan it wanted":     {3, 3, planned},
		"a plan newer than that": {2, 3, entered},
	} {
		s := &Job{
			Record: record.Job{Plan: record.Blob{Version: c.plan}}, planned: planned,
			user:  &Wanted{Spec: &dag.Job{Name: "j", Tasks: []dag.Task{{Name: "a"}}}},
			Tasks: map[int]record.Task{0: {MinPlan: c.minPlan}}, entered: map[int]time.Time{0: entered},
		}
		if got := s.couldGoSince(0); !got.Equal(c.want) {
			t.Errorf("%s: since %v, want %v", name, got, c.want)
		}
	}
	// A gang can go when the last of it can.
	s := &Job{
		Record: record.Job{Plan: record.Blob{Version: 4}}, planned: planned,
		Tasks: map[int]record.Task{0: {MinPlan: 3}, 1: {MinPlan: 4}}, entered: map[int]time.Time{0: entered, 1: entered},
		user: &Wanted{Spec: &dag.Job{Name: "j", Tasks: []dag.Task{{Name: "a", Gang: "g"}, {Name: "b", Gang: "g"}}}},
	}
	if got := s.couldGoSince(0); !got.Equal(planned) {
		t.Errorf("a gang: since %v, want %v", got, planned)
	}
}

// A session decides by what it has read and writes seconds later: who could go only since then was not passed over.
func TestRoomIsPromisedWhenThatIsDecided(t *testing.T) {
	c := &Checker{Timeline: timeline.New(1, 10, nil), cfg: record.DefaultConfig()}
	decided := c.Now.Add(-2 * time.Second)
	claim := apitypes.Claim{For: "j/t", Until: decided.Add(c.cfg.PromisedFor())}
	if got := c.promised(claim); !got.Equal(decided) {
		t.Errorf("promised %v before it was written, want 2s", c.Now.Sub(got))
	}
	claim.Until = claim.Until.Add(time.Minute) // of a clock that is ahead
	if got := c.promised(claim); !got.Equal(c.Now) {
		t.Errorf("promised %v after it was written", got.Sub(c.Now))
	}
}
