package check

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Two tasks stop each other in turns, and the check must report that. No injected bug can test the check, because two
// mechanisms of the broker prevent such stops.
func TestMutualStopsAreDetected(t *testing.T) {
	stop := func(c *Checker, job, claim string) {
		s := c.Jobs[job]
		c.checkStopped(s, record.Cluster{}, record.Cluster{Job: job, Leaving: record.LeaveForOthers, For: claim, Since: time.Now()})
	}
	for name, turns := range map[string]struct {
		stops [][2]string
		want  bool
	}{
		"the other in turn":   {[][2]string{{"a", "b/t"}, {"b", "a/t"}}, true},
		"a third":             {[][2]string{{"a", "b/t"}, {"b", "c/t"}}, false},
		"the same once more":  {[][2]string{{"a", "b/t"}, {"a", "b/t"}}, false},
		"in turn, with a gap": {[][2]string{{"a", "b/t"}, {"a", "c/t"}, {"c", "b/t"}, {"b", "a/t"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Checker{Timeline: timeline.New(1, 10, nil), reclaim: newReclaimChecker(), Jobs: map[string]*Job{}, cfg: config.Default()}
			for _, id := range []string{"a", "b", "c"} {
				spec := &dag.Job{Name: id, Tasks: []dag.Task{{Name: "t", Time: dag.TimeEstimate{Default: 8 * time.Hour}}}}
				c.Jobs[id] = &Job{ID: id, user: &Wanted{Spec: spec, Factor: []float64{1}}}
			}
			for _, turn := range turns.stops {
				stop(c, turn[0], turn[1])
			}
			if got := c.Violation != nil && c.Violation.Invariant == InvTurn; got != turns.want || !got && c.Violation != nil {
				t.Errorf("violation %v, want one: %v", c.Violation, turns.want)
			}
		})
	}
}
