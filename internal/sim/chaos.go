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

// GCPercent is how much garbage a process that plays histories best lets gather (debug.SetGCPercent): a world is small
// and drops most of what it makes, so that with the usual 100 a fifth of the time goes into collecting it.
const GCPercent = 800

// ErrSeeds says that a range of seeds is none.
var ErrSeeds = errors.New("sim: a range of seeds goes from a smaller to a greater number")

// ChaosOptions are what many simulations have in common.
type ChaosOptions struct {
	Options
	// Workers is how many simulations run at once; 0 is one for each processor.
	Workers int
	// StopAfter is after how many violations no more seeds are played; 0 is never.
	StopAfter int
}

// Report is what many simulations found. Its JSON is stable.
type Report struct {
	From       uint64         `json:"from"`  // the first seed
	To         uint64         `json:"to"`    // the seed after the last
	Seeds      int            `json:"seeds"` // seeds played, fewer than the range when it was interrupted
	Steps      int            `json:"steps"`
	Jobs       int            `json:"jobs"`
	Succeeded  int            `json:"succeeded"`    // jobs that did
	Promised   int            `json:"promised"`     // jobs whose deadline had to be kept, see Guarantee
	Hours      float64        `json:"virtualHours"` // of virtual time
	Faults     map[string]int `json:"faults"`       // what went wrong, by kind
	Violations []Failure      `json:"violations"`   // by seed
}

// Failure is a violation with the lines of its history that came before.
type Failure struct {
	timeline.Violation
	History []string `json:"history"`
}

// Chaos plays the histories of the seeds from up to, not including, to. The report does not depend on how many run at
// once. progress, if not nil, is told after each seed, by one goroutine at a time. It
// fails with ErrSeeds, or with ctx's error and what was found until then. Options.History is written only where there
// is one seed.
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
	play(playing, from, to, workers, opt.Options, func(r Result) {
		if playing.Err() != nil && ctx.Err() == nil {
			return // begun before there were enough violations
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

// play runs seeds on some goroutines, and hands over the results in the order of the seeds.
func play(ctx context.Context, from, to uint64, workers int, opt Options, take func(Result)) {
	seeds := make(chan uint64)
	results := make(chan Result)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for seed := range seeds {
				results <- perhapsAgain(seed, opt)
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

// replayed is of how many seeds one is played twice.
const replayed = 25

// perhapsAgain plays a seed, and every so often plays it again: a world that goes another way the second time cannot be
// understood, nor seen to be mended.
func perhapsAgain(seed uint64, opt Options) Result {
	r := Run(seed, opt)
	if seed%replayed != 0 || r.Violation != nil || opt.History != nil {
		return r
	}
	again := Run(seed, opt)
	if again.Steps != r.Steps || again.Virtual != r.Virtual || !maps.Equal(again.Faults, r.Faults) {
		r.Violation = &timeline.Violation{
			Seed: seed, Step: r.Steps, At: r.Virtual, Invariant: check.InvOneHistory,
			Detail: fmt.Sprintf("it took %d steps and %v, and %d and %v when it was played again", r.Steps, r.Virtual,
				again.Steps, again.Virtual),
		}
	}
	return r
}

// add takes in one history.
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
