// Package windtunnel measures the policies of package parsync as the paper does (Feng et al., ATC '21, §5). N
// schedulers make real decisions over hundreds of thousands of slots; the tasks only pass time. Time is simulated, so
// the result depends only on the configuration and the seed.
//
// Tasks arrive at each scheduler as a Poisson process and wait in its queue. A scheduler makes a limited number of
// tries a second. Each try takes the slot that the policy prefers in the scheduler's view and commits at once. If
// another scheduler has taken the slot since the view was refreshed, that is a conflict: the try is lost, and the
// task is tried again. A task holds its slot for a random time, whose mean is Config.Hold.
package windtunnel

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Config is the configuration of an experiment.
type Config struct {
	Schedulers int
	Partitions int
	Slots      int
	Rate       float64 // maximum tries a second of all schedulers together
	// Load is the offered load of each phase as a share of Rate. It has one list for all schedulers, or one list for
	// each of several classes with equal numbers of schedulers.
	Load  [][]float64
	Phase time.Duration
	// Hold is the mean time for which a task holds its slot; 0 means such that a load of 100% fills all slots.
	Hold   time.Duration
	Policy parsync.Policy
	Gap    time.Duration // time between two refreshes of the same slot by one scheduler; 0 means DefaultGap
	Switch time.Duration // delay at which the adaptive policy changes; 0 means parsync.DefaultSwitch
	// ScoreVariance is the variance of the slots' scores, whose mean is 1. A negative value means DefaultVariance.
	ScoreVariance float64
	// Alike is the correlation of the scores of a partition's slots, from 0 to 1: the machines of a partition were
	// bought together, for example.
	Alike float64
	// Candidates is the number of slots that the baseline draws for a task, to take the best of them; 0 takes the
	// best of all. Schedulers with equal views that all want the best slot conflict: with 0 the baseline breaks down
	// at half its load.
	Candidates int
	Seed       uint64
	// Progress is called after each phase, if not nil.
	Progress func(phase, of int)
}

// Defaults of a Config.
const (
	DefaultGap      = 500 * time.Millisecond
	DefaultVariance = 0.04
	// DefaultCandidates is 2, the power of two choices.
	DefaultCandidates = 2
)

// Result holds the measurements of an experiment.
type Result struct {
	Policy     parsync.Policy `json:"policy"`
	Schedulers int            `json:"schedulers"`
	Partitions int            `json:"partitions"`
	Slots      int            `json:"slots"`
	Rate       float64        `json:"rate"`
	GapSeconds float64        `json:"gapSeconds"`
	Variance   float64        `json:"scoreVariance"`
	Seed       uint64         `json:"seed"`
	Phases     []Phase        `json:"phases"`
	// Classes are the phases of each class of schedulers, if there are several.
	Classes [][]Phase `json:"classes,omitempty"`
	Total   Phase     `json:"total"`
	Virtual float64   `json:"virtualSeconds"`
	// Series is the data of the chart: one point a second.
	Series []Point `json:"series,omitempty"`
}

// Phase holds the measurements of a phase.
type Phase struct {
	Load         float64 `json:"load"`         // offered load in percent of the rate
	Tasks        int     `json:"tasks"`        // placed tasks
	PerSecond    float64 `json:"perSecond"`    // placed tasks a second
	DelaySeconds float64 `json:"delaySeconds"` // mean time from arrival to placement
	DelayP99     float64 `json:"delayP99Seconds"`
	// Quality is the mean score of the slots taken. Ideal is the mean score of the same number of best slots, which a
	// single scheduler with a perfect view would have taken.
	Quality   float64 `json:"quality"`
	Ideal     float64 `json:"idealQuality,omitempty"`
	Conflicts int     `json:"conflicts"`
	// Expected is the number of conflicts that parsync.TurnoverConflicts expects, from the free slots at each refresh
	// and the tries until the next. It is computed only for statesync, where all of a view has the same age. A
	// preference for fresh partitions is meant to beat it.
	Expected float64 `json:"expectedConflicts,omitempty"`
	PerTask  float64 `json:"conflictsPerTask"`
	Used     float64 `json:"used,omitempty"` // mean share of all slots in use, by all schedulers together
	Waiting  int     `json:"waiting"`        // waiting tasks at the end
}

// Point is one second of a run.
type Point struct {
	At        float64 `json:"at"`           // seconds from the start
	Delay     float64 `json:"delaySeconds"` // mean of the tasks placed in this second
	Quality   float64 `json:"quality"`      // mean score of their slots
	Conflicts int     `json:"conflicts"`
}

// Validate returns parsync.ErrInvalid, with the name of the field, if a field is invalid.
func (c Config) Validate() error {
	gap := c.Gap
	if gap == 0 {
		gap = DefaultGap
	}
	hold := c.hold()
	for _, check := range []struct {
		ok    bool
		field string
		text  string
	}{
		{c.Schedulers >= 1 && c.Schedulers <= 1000, "schedulers",
			fmt.Sprintf("%d is not between 1 and 1000", c.Schedulers)},
		{c.Partitions >= 1 && c.Partitions <= 10_000, "partitions",
			fmt.Sprintf("%d is not between 1 and 10000", c.Partitions)},
		{c.Slots >= c.Partitions && c.Slots <= 10_000_000, "slots",
			fmt.Sprintf("%d is not between the number of partitions and 10000000", c.Slots)},
		{c.Rate >= 1 && c.Rate <= 1e7, "rate", fmt.Sprintf("%v is not between 1 and 10000000 tasks a second", c.Rate)},
		{c.Phase >= time.Second && c.Phase <= 24*time.Hour, "phase",
			fmt.Sprintf("%v is not between 1s and 24h", c.Phase)},
		{gap >= time.Millisecond && gap <= c.Phase, "gap", fmt.Sprintf("%v is not between 1ms and a phase", gap)},
		{
			hold*float64(c.Partitions)/gap.Seconds() <= longest/8, "gap",
			fmt.Sprintf("%v, over %d partitions, is too short for tasks of %.0f s", gap, c.Partitions, hold),
		},
		{c.Hold >= 0, "hold", fmt.Sprintf("%v is negative", c.Hold)},
		{c.Switch >= 0, "switch", fmt.Sprintf("%v is negative", c.Switch)},
		{c.ScoreVariance <= 1, "score-variance", fmt.Sprintf("%v is not between 0 and 1", c.ScoreVariance)},
		{c.Alike >= 0 && c.Alike <= 1, "alike", fmt.Sprintf("%v is not between 0 and 1", c.Alike)},
		{c.Candidates >= 0 && c.Candidates <= 1000, "candidates",
			fmt.Sprintf("%d is not between 0 and 1000", c.Candidates)},
	} {
		if !check.ok {
			return fmt.Errorf("%w: %s: %s", parsync.ErrInvalid, check.field, check.text)
		}
	}
	if err := c.validateLoad(); err != nil {
		return err
	}
	if _, err := ParsePolicy(string(c.Policy)); err != nil {
		return err
	}
	if _, err := parsync.NewRotation(c.Schedulers, c.Partitions); err != nil {
		return fmt.Errorf("%w: partitions: %d for %d schedulers; there must be more partitions", parsync.ErrInvalid,
			c.Partitions, c.Schedulers)
	}
	return nil
}

// hold returns the mean time for which a task holds its slot, in seconds.
func (c Config) hold() float64 {
	if c.Hold > 0 {
		return c.Hold.Seconds()
	}
	return float64(c.Slots) / c.Rate
}

func (c Config) validateLoad() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: load: %s", parsync.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case len(c.Load) == 0 || len(c.Load[0]) == 0:
		return bad("there are no phases")
	case len(c.Load) > c.Schedulers:
		return bad("%d classes, but only %d schedulers", len(c.Load), c.Schedulers)
	}
	for _, class := range c.Load {
		if len(class) != len(c.Load[0]) {
			return bad("classes have %d and %d phases", len(c.Load[0]), len(class))
		}
		for _, l := range class {
			if !(l >= 0 && l <= 2) {
				return bad("%v%% is not between 0 and 200", l*100)
			}
		}
	}
	return nil
}

// Run runs an experiment. It returns parsync.ErrInvalid for an invalid configuration, or the context's error.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Gap == 0 {
		c.Gap = DefaultGap
	}
	if c.ScoreVariance < 0 {
		c.ScoreVariance = DefaultVariance
	}
	t := newTunnel(c)
	for phase := range c.Load[0] {
		if err := t.phase(ctx, phase); err != nil {
			return nil, err
		}
		if c.Progress != nil {
			c.Progress(phase+1, len(c.Load[0]))
		}
	}
	return t.result(), nil
}
