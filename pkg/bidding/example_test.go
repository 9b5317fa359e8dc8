package bidding_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// A run of ten hours on a spot machine that is interrupted every 20 hours, with and without checkpoints.
func ExampleSpot() {
	run := bidding.Run{Hours: 10, RestartHours: 0.1, PreemptionsPerHour: 1. / 20, Nodes: 1}
	whole, _ := bidding.Spot(run)
	run.CheckpointHours = 0.5
	saved, _ := bidding.Spot(run)
	fmt.Printf("without checkpoints %.1f h, with %.1f h\n", whole.Hours, saved.Hours)
	// Output: without checkpoints 13.0 h, with 10.2 h
}
