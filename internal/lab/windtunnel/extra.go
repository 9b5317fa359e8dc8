package windtunnel

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Extra is the number of slots that a cluster must have besides those in use, so that conflicts do not delay tasks.
type Extra struct {
	Slots    int     // besides those in use
	InUse    int     // by running tasks: the arrivals in a mean hold time
	PerTask  float64 // conflicts for each placed task
	Expected float64 // the same by parsync.TurnoverConflicts, for the views of StateSync; 0 for other policies
}

// ErrNoSlots means that no number of slots suffices.
var ErrNoSlots = errors.New("more tasks arrive than the schedulers can try")

// FindExtra finds the least number of slots, to about a hundredth, with which the schedulers of a configuration keep
// up with the tasks that arrive, so that a task waits no longer than maxDelay on average: a scheduler has a limited
// number of tries, and a conflict wastes one (Feng et al., ATC '21, §3). The last phase is measured; the others are for
// warming up. All phases must have the same load. c.Slots is ignored, and c.Hold must be set. Errors wrap
// parsync.ErrInvalid and ErrNoSlots.
func FindExtra(ctx context.Context, c Config, maxDelay time.Duration) (*Extra, error) {
	if c.Hold <= 0 || len(c.Load) != 1 || len(c.Load[0]) == 0 {
		return nil, parsync.ErrInvalid
	}
	arrive := c.Load[0][0] * c.Rate
	used := arrive * c.Hold.Seconds()
	if c.Load[0][0] >= 1 {
		return nil, ErrNoSlots
	}
	try := func(extra float64) (*Phase, bool, error) {
		c.Slots = int(math.Ceil(used + extra))
		r, err := Run(ctx, c)
		if err != nil {
			return nil, false, err
		}
		p := &r.Phases[len(r.Phases)-1]
		return p, p.DelaySeconds <= maxDelay.Seconds(), nil
	}
	low, high := 0.0, used/64
	var last *Phase
	for {
		p, ok, err := try(high)
		if err != nil {
			return nil, err
		}
		if ok {
			last = p
			break
		}
		low, high = high, 2*high
	}
	for high-low > max(high, used/10)/100 {
		middle := (low + high) / 2
		p, ok, err := try(middle)
		if err != nil {
			return nil, err
		}
		if ok {
			high, last = middle, p
		} else {
			low = middle
		}
	}
	tasks := math.Max(float64(last.Tasks), 1)
	return &Extra{
		Slots: int(math.Ceil(high)), InUse: int(math.Ceil(used)),
		PerTask: last.PerTask, Expected: last.Expected / tasks,
	}, nil
}
