package windtunnel_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// crowded returns a cluster whose schedulers each try to place 200 tasks a second.
func crowded(schedulers int, perSecond float64, gap time.Duration) windtunnel.Config {
	load := perSecond / 200 / float64(schedulers)
	return windtunnel.Config{
		Schedulers: schedulers, Partitions: 50, Rate: 200 * float64(schedulers), Load: [][]float64{{load, load, load}},
		Phase: 20 * time.Second, Hold: 5 * time.Second, Policy: parsync.StateSync, Gap: gap, Candidates: 2, Seed: 1,
	}
}

// With more tasks or older views, more slots are needed. With more schedulers, fewer are needed, because each has
// more tries left (ATC '21, §3). The model's conflicts must be near those of the simulation.
func TestExtraSlotsGrowAsInThePaper(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates many clusters")
	}
	extra := func(schedulers int, perSecond float64, gap time.Duration) int {
		x, err := windtunnel.FindExtra(t.Context(), crowded(schedulers, perSecond, gap), 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(x.Expected-x.PerTask) > 0.12*x.PerTask {
			t.Errorf("%d schedulers, %v/s: %.3f conflicts for a task, the model has %.3f", schedulers, perSecond,
				x.PerTask, x.Expected)
		}
		return x.Slots
	}
	base := extra(10, 1600, 500*time.Millisecond)
	for name, got := range map[string]int{
		"more tasks":  extra(10, 1800, 500*time.Millisecond),
		"older views": extra(10, 1600, time.Second),
	} {
		if got < base*3/2 {
			t.Errorf("%s: %d extra slots, before %d", name, got, base)
		}
	}
	if got := extra(20, 1600, 500*time.Millisecond); got > base/2 {
		t.Errorf("more schedulers: %d extra slots, before %d", got, base)
	}
}

func TestNoSlotsSufficeForTooManyTasks(t *testing.T) {
	if _, err := windtunnel.FindExtra(t.Context(), crowded(10, 2000, time.Second), time.Second); !errors.Is(err,
		windtunnel.ErrNoSlots) {
		t.Error(err)
	}
	c := crowded(10, 1000, time.Second)
	c.Hold = 0
	if _, err := windtunnel.FindExtra(t.Context(), c, time.Second); !errors.Is(err, parsync.ErrInvalid) {
		t.Error(err)
	}
}
