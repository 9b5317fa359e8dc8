package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

// GCPercent is a good value of debug.SetGCPercent for a process that simulates. A world is small and drops most
// memory that it allocates. At the usual value, 100, a fifth of the time is spent on collecting garbage.
const GCPercent = 800

// ErrSeeds means that a range of seeds is empty.
var ErrSeeds = errors.New("sim: a range of seeds goes from a smaller to a greater number")

// ChaosOptions are the options of a series of simulations.
type ChaosOptions struct {
	Options
	// Workers is the number of concurrent simulations; 0 is one for each processor.
	Workers int
	// StopAfter is the number of violations after which no more seeds are simulated; 0 is unlimited.
	StopAfter int
}

// Report is the result of a series of simulations. Its JSON is stable.
type Report struct {
	From       uint64         `json:"from"`  // the first seed
	To         uint64         `json:"to"`    // the seed after the last
	Seeds      int            `json:"seeds"` // simulated seeds, fewer than the range if interrupted
	Steps      int            `json:"steps"`
	Jobs       int            `json:"jobs"`
	Succeeded  int            `json:"succeeded"`    // succeeded jobs
	Promised   int            `json:"promised"`     // number of jobs whose deadline had to be met, see Guarantee
	Hours      float64        `json:"virtualHours"` // of virtual time
	Faults     map[string]int `json:"faults"`       // number of faults by kind
	Violations []Failure      `json:"violations"`   // by seed
}

// Failure is a violation with the preceding lines of its history.
type Failure struct {
	timeline.Violation
	History []string `json:"history"`
}

// Chaos simulates the seeds from from up to, not including, to. The report does not depend on the number of workers.
// progress, if not nil, is called after each seed, by one goroutine at a time. Chaos returns ErrSeeds, or ctx's error
// and the results until then. Options.History is written only if there is one seed.
func Chaos(ctx context.Context, from, to uint64, opt ChaosOptions, progress func(Result)) (Report, error) {
	report := Report{From: from, To: to, Faults: map[string]int{}, Violations: []Failure{}}
	if to <= from {
		return report, fmt.Errorf("%w: %d:%d", ErrSeeds, from, to)
	}
	if to-from > 1 {
		opt.History = nil
	}
	workers := opt.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	runSeeds(playing, from, to, workers, opt.Options, func(r Result) {
		if playing.Err() != nil && ctx.Err() == nil {
			return // started before there were enough violations
		}
		report.add(r)
		if progress != nil {
			progress(r)
		}
		if opt.StopAfter > 0 && len(report.Violations) >= opt.StopAfter {
			stop()
		}
	})
	return report, ctx.Err()
}

// runSeeds runs seeds on several goroutines and passes the results on in the order of the seeds.
func runSeeds(ctx context.Context, from, to uint64, workers int, opt Options, take func(Result)) {
	seeds := make(chan uint64)
	results := make(chan Result)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for seed := range seeds {
				results <- runMaybeTwice(seed, opt)
			}
		})
	}
	go func() {
		defer close(results)
		defer wg.Wait()
		defer close(seeds)
		for seed := from; seed < to && ctx.Err() == nil; seed++ {
			select {
			case seeds <- seed:
			case <-ctx.Done():
				return
			}
		}
	}()
	early := map[uint64]Result{}
	next := from
	for r := range results {
		early[r.Seed] = r
		for {
			r, ok := early[next]
			if !ok {
				break
			}
			take(r)
			delete(early, next)
			next++
		}
	}
}

// replayed: one of this many seeds is simulated twice.
const replayed = 25

// runMaybeTwice runs a seed, and sometimes runs it again to check that both runs are equal. If they were not, no one
// could debug the world, or see that a bug in it is fixed.
func runMaybeTwice(seed uint64, opt Options) Result {
	r := Run(seed, opt)
	if seed%replayed != 0 || r.Violation != nil || opt.History != nil {
		return r
	}
	again := Run(seed, opt)
	if again.Steps != r.Steps || again.Virtual != r.Virtual || !maps.Equal(again.Faults, r.Faults) {
		r.Violation = &timeline.Violation{
			Seed: seed, Step: r.Steps, At: r.Virtual, Invariant: check.InvOneHistory,
			Detail: fmt.Sprintf("it took %d steps and %v, and %d and %v the second time", r.Steps, r.Virtual,
				again.Steps, again.Virtual),
		}
	}
	return r
}

// add adds one history to the report.
func (r *Report) add(one Result) {
	r.Seeds++
	r.Steps += one.Steps
	r.Jobs += one.Jobs
	r.Succeeded += one.Succeeded
	r.Promised += one.Promised
	r.Hours += one.Virtual.Hours()
	for kind, n := range one.Faults {
		r.Faults[kind] += n
	}
	if one.Violation != nil {
		r.Violations = append(r.Violations, Failure{*one.Violation, one.History})
	}
}
