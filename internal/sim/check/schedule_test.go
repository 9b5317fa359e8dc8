package check

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A lost task that waits for a new plan cannot run, so later tasks may keep room that was promised to them meanwhile.
// A task that already has a plan can run, even if other plans are made later.
func TestTaskCouldGoSinceItsPlan(t *testing.T) {
	entered, planned := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, c := range map[string]struct {
		minPlan, plan int
		want          time.Time
	}{
		"an older plan suffices": {0, 3, entered},
		"the plan it needs":      {3, 3, planned},
		"a newer plan":           {2, 3, entered},
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
	// A gang can run as soon as its last task can.
	s := &Job{
		Record: record.Job{Plan: record.Blob{Version: 4}}, planned: planned,
		Tasks: map[int]record.Task{0: {MinPlan: 3}, 1: {MinPlan: 4}}, entered: map[int]time.Time{0: entered, 1: entered},
		user: &Wanted{Spec: &dag.Job{Name: "j", Tasks: []dag.Task{{Name: "a", Gang: "g"}, {Name: "b", Gang: "g"}}}},
	}
	if got := s.couldGoSince(0); !got.Equal(planned) {
		t.Errorf("a gang: since %v, want %v", got, planned)
	}
}

// A session decides by the records that it read, and commits seconds later. A task that became able to run between
// the two was not overtaken.
func TestRoomIsPromisedAtDecision(t *testing.T) {
	c := &Checker{Timeline: timeline.New(1, 10, nil), cfg: config.Default()}
	decided := c.Now.Add(-2 * time.Second)
	claim := apitypes.Claim{For: "j/t", Until: decided.Add(c.cfg.PromisedFor())}
	if got := c.promised(claim); !got.Equal(decided) {
		t.Errorf("promised %v before it was written, want 2s", c.Now.Sub(got))
	}
	claim.Until = claim.Until.Add(time.Minute) // by a clock that is ahead
	if got := c.promised(claim); !got.Equal(c.Now) {
		t.Errorf("promised %v after it was written", got.Sub(c.Now))
	}
}
