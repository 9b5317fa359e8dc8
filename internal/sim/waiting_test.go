package sim

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/weather"
)

// TestJobsWaitingForLowerPricesMeetDeadlines simulates worlds in which prices rise and fall regularly and spot
// machines are preempted, but nothing else fails. Tasks may wait for a low price, and every feasible deadline must be
// met.
func TestJobsWaitingForLowerPricesMeetDeadlines(t *testing.T) {
	faults := weather.Faults{
		Interleave: 0.3, Spells: 0.1, Tides: weather.Span{Good: 2 * time.Hour, Bad: time.Hour}, Spot: weather.Span{Good: 6 * time.Hour, Bad: time.Hour}, Taken: 3 * time.Hour,
		NoticeLost: 0.3,
	}
	seeds := uint64(60)
	if testing.Short() || raceDetector {
		seeds = 12
	}
	report, err := Chaos(t.Context(), 1000, 1000+seeds, ChaosOptions{Options: Options{Faults: &faults, Jobs: 5}, Workers: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("%v", &v.Violation)
	}
	all, promised := report.Faults["waits for a better price"], report.Faults["waits with a deadline that must be met"]
	t.Logf("%d jobs of which %d have to meet their deadline; %d tasks wait, %d of those", report.Jobs, report.Promised, all, promised)
	if uint64(promised) < seeds/12 {
		t.Error("too few wait for this to prove anything")
	}
}
