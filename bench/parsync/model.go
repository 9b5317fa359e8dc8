package main

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
)

// modelSeeds is how many runs of the wind tunnel are the model's mean.
const modelSeeds = 5

// model is how many conflicts the wind tunnel has until as many tasks are placed, by as many schedulers that try as
// many a second as was measured, beginning with nothing in use. It is none of one scheduler, which knows what it has
// taken.
func model(ctx context.Context, s sizes, m measure) (float64, error) {
	if m.processes == 1 {
		return 0, nil
	}
	gap := s.turn * time.Duration(s.partitions)
	sum := 0.0
	for seed := range uint64(modelSeeds) {
		r, err := windtunnel.Run(ctx, windtunnel.Config{
			Schedulers: m.processes, Partitions: s.partitions, Slots: s.machines * slotsEach,
			Rate: max(m.perSecond(), 1), Load: [][]float64{{1}}, Phase: max(m.took, gap, time.Second), Policy: m.policy,
			Gap: gap, ScoreVariance: -1, Seed: seed,
		})
		if err != nil {
			return 0, err
		}
		sum += r.Total.PerTask * float64(m.placed)
	}
	return sum / modelSeeds, nil
}
