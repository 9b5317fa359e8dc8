package main

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
)

// modelSeeds is the number of wind tunnel runs of which the model is the mean.
const modelSeeds = 5

// model is the number of conflicts in the wind tunnel until the same number of tasks is placed, by the same number of
// schedulers at the measured rate of attempts, starting with nothing in use. It is zero for one scheduler, which
// knows its own placements.
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
