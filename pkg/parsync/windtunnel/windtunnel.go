// Package windtunnel measures policies of package parsync as their paper does
// (Feng et al., ATC '21, §5): real scheduling decisions of N schedulers over hundreds of
// thousands of slots, with tasks that only pass time. Time is virtual, so that the
// result follows from the configuration and the seed alone.
//
// Tasks arrive as a Poisson process at each scheduler and wait in its queue. A scheduler tries so many tasks
// a second, each on the slot that its policy prefers in its view, and commits at once: a slot that another has
// taken since the view was refreshed is a conflict, which costs the try, and the task is tried again. A task holds its
// slot for a random time whose mean makes the offered load at capacity fill all slots.
package windtunnel

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Config is an experiment.
type Config struct {
	Schedulers int
	Partitions int
	Slots      int
	Rate       float64 // tasks a second that all schedulers together can try
	// Load is the offered load of each phase, as a share of Rate: one list for all schedulers, or several, for as
	// many classes of schedulers of equal number.
	Load   [][]float64
	Phase  time.Duration
	Policy parsync.Policy
	Gap    time.Duration // between two refreshes of a slot's state by one scheduler; 0 is DefaultGap
	Switch time.Duration // the delay at which the adaptive policy changes; 0 is parsync.DefaultSwitch
	// ScoreVariance is that of the slots' scores, about a mean of 1; negative is DefaultVariance.
	ScoreVariance float64
	// Candidates is how many slots the baseline draws for a task, to take the best; 0 takes the best of all. Schedulers
	// that all see the same and all want the best meet there: with 0 the baseline breaks down at half its load.
	Candidates int
	Seed       uint64
	// Progress is told after each phase; may be nil.
	Progress func(phase, of int)
}

// Defaults of a Config.
const (
	DefaultGap      = 500 * time.Millisecond
	DefaultVariance = 0.04
	// DefaultCandidates is the power of two choices.
	DefaultCandidates = 2
)

// Result is what an experiment measured.
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
	// Classes are the phases of each class of schedulers, where there are several.
	Classes [][]Phase `json:"classes,omitempty"`
	Total   Phase     `json:"total"`
	Virtual float64   `json:"virtualSeconds"`
	// Series is what a chart shows: one point a second.
	Series []Point `json:"series,omitempty"`
}

// Phase is what was measured of a phase.
type Phase struct {
	Load         float64 `json:"load"`         // offered, percent of the rate
	Tasks        int     `json:"tasks"`        // placed
	PerSecond    float64 `json:"perSecond"`    // placed
	DelaySeconds float64 `json:"delaySeconds"` // from arrival to being placed, mean
	DelayP99     float64 `json:"delayP99Seconds"`
	// Quality is the mean score of the slots taken, Ideal that of the best slots of the same number: what one scheduler
	// that sees everything would have taken.
	Quality   float64 `json:"quality"`
	Ideal     float64 `json:"idealQuality,omitempty"`
	Conflicts int     `json:"conflicts"`
	// Expected is what parsync.GradedConflicts expects, from what was free when views were refreshed and tried until
	// the next time. Of policies that see everything equally late (statesync) alone: a preference for fresh partitions
	// is made to beat it.
	Expected float64 `json:"expectedConflicts,omitempty"`
	PerTask  float64 `json:"conflictsPerTask"`
	Used     float64 `json:"used,omitempty"` // of all slots, mean; of all schedulers together
	Waiting  int     `json:"waiting"`        // tasks at the end
}

// Point is one second of a run.
type Point struct {
	At        float64 `json:"at"`           // seconds from the start
	Delay     float64 `json:"delaySeconds"` // mean of the tasks placed in it
	Quality   float64 `json:"quality"`      // mean score of the slots they got
	Conflicts int     `json:"conflicts"`
}

// Validate fails with parsync.ErrInvalid, naming the field.
func (c Config) Validate() error {
	gap := c.Gap
	if gap == 0 {
		gap = DefaultGap
	}
	hold := float64(c.Slots) / c.Rate // seconds
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
			fmt.Sprintf("%d is not between one a partition and 10000000", c.Slots)},
		{c.Rate >= 1 && c.Rate <= 1e7, "rate", fmt.Sprintf("%v is not between 1 and 10000000 tasks a second", c.Rate)},
		{c.Phase >= time.Second && c.Phase <= 24*time.Hour, "phase",
			fmt.Sprintf("%v is not between 1s and 24h", c.Phase)},
		{gap >= time.Millisecond && gap <= c.Phase, "gap", fmt.Sprintf("%v is not between 1ms and a phase", gap)},
		{
			hold*float64(c.Partitions)/gap.Seconds() <= longest/8, "gap",
			fmt.Sprintf("%v, over %d partitions, is too short for tasks of %.0f s", gap, c.Partitions, hold),
		},
		{c.Switch >= 0, "switch", fmt.Sprintf("%v is negative", c.Switch)},
		{c.ScoreVariance <= 1, "score-variance", fmt.Sprintf("%v is not between 0 and 1", c.ScoreVariance)},
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
	if _, err := parsync.ParsePolicy(string(c.Policy)); err != nil {
		return err
	}
	if _, err := parsync.NewRotation(c.Schedulers, c.Partitions); err != nil {
		return fmt.Errorf("%w: partitions: %d for %d schedulers; there must be more partitions", parsync.ErrInvalid,
			c.Partitions, c.Schedulers)
	}
	return nil
}

func (c Config) validateLoad() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: load: %s", parsync.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case len(c.Load) == 0 || len(c.Load[0]) == 0:
		return bad("there is no phase")
	case len(c.Load) > c.Schedulers:
		return bad("%d classes of %d schedulers", len(c.Load), c.Schedulers)
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

// Run plays an experiment. It fails with parsync.ErrInvalid, or ctx's error when that ends first.
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
