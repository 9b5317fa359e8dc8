package bidding_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

func TestSpotWithoutInterruptions(t *testing.T) {
	q, ok := bidding.Spot(bidding.Run{Hours: 3, Nodes: 1})
	if !ok || q.Hours != 3 || q.Held != 3 || q.Guaranteed != 6 {
		t.Errorf("%+v %v", q, ok)
	}
}

func TestSpotRejectsHopelessRuns(t *testing.T) {
	if q, ok := bidding.Spot(bidding.Run{Hours: 24, PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.1}); ok {
		t.Errorf("offered %+v", q)
	}
	if _, ok := bidding.Spot(bidding.Run{Hours: 24, CheckpointHours: 0.25, PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.1}); !ok {
		t.Error("checkpoints do not help")
	}
}

// The expected time agrees with a simulation of random interruptions.
func TestSpotMatchesSimulation(t *testing.T) {
	for _, run := range []bidding.Run{
		{Hours: 4, CheckpointHours: 0.5, RestartHours: 0.2, PreemptionsPerHour: 0.3, Nodes: 1},
		{Hours: 2, RestartHours: 0.1, PreemptionsPerHour: 0.25, Nodes: 2},
		{Hours: 6, CheckpointHours: 2, RestartHours: 0.5, PreemptionsPerHour: 0.1, Nodes: 4},
	} {
		rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a simulation
		const repeats = 60000
		sum := 0.0
		for range repeats {
			sum += play(rng, run)
		}
		q, _ := bidding.Spot(run)
		if mean := sum / repeats; math.Abs(mean-q.Hours) > 0.02*q.Hours {
			t.Errorf("%+v: expected %.3f, simulated %.3f", run, q.Hours, mean)
		}
	}
}

func play(rng *rand.Rand, run bidding.Run) float64 {
	segment := run.Hours
	if run.CheckpointHours > 0 {
		segment = run.CheckpointHours
	}
	rate := run.PreemptionsPerHour * float64(run.Nodes)
	clock := 0.0
	for left := int(math.Round(run.Hours / segment)); left > 0; {
		if taken := rng.ExpFloat64() / rate; taken < segment {
			clock += taken + run.RestartHours
			continue
		}
		clock += segment
		left--
	}
	return clock
}

func TestSpotIsMonotonicInRisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := bidding.Run{
			Hours:              rapid.Float64Range(0.01, 50).Draw(t, "hours"),
			CheckpointHours:    rapid.Float64Range(0, 5).Draw(t, "checkpoint"),
			RestartHours:       rapid.Float64Range(0, 1).Draw(t, "restart"),
			PreemptionsPerHour: rapid.Float64Range(0, 0.5).Draw(t, "rate"),
			Nodes:              rapid.IntRange(1, 8).Draw(t, "nodes"),
		}
		q, ok := bidding.Spot(run)
		worse := run
		worse.PreemptionsPerHour *= 1.5
		w, wok := bidding.Spot(worse)
		if q.Hours < run.Hours*(1-1e-9) || q.Guaranteed < run.Hours {
			t.Fatalf("shorter than the work: %+v", q)
		}
		if w.Hours < q.Hours*(1-1e-9) || wok && !ok {
			t.Fatalf("more risk, less time: %+v %+v", q, w)
		}
	})
}

// An hour without checkpoints that is interrupted once an hour (or on two machines, each interrupted every other
// hour) takes e−1 hours on average, plus half an hour of restart for each of as many losses. Half of the restarts are
// paid.
func TestSpotQuote(t *testing.T) {
	once := math.E - 1
	for _, c := range []struct {
		run                     bidding.Run
		hours, held, guaranteed float64
	}{
		{bidding.Run{Hours: 1, PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.5}, 1.5 * once, 1.25 * once, 2.5},
		{bidding.Run{Hours: 1, PreemptionsPerHour: 0.5, Nodes: 2, RestartHours: 0.5}, 1.5 * once, 1.25 * once, 2.5},
		// Nodes 0 counts as one machine.
		{bidding.Run{Hours: 1, PreemptionsPerHour: 1, RestartHours: 0.5}, 1.5 * once, 1.25 * once, 2.5},
		{
			bidding.Run{Hours: 3, CheckpointHours: 1, PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.5},
			4.5 * once, 3.75 * once, 4.5,
		},
		{
			bidding.Run{Hours: 1, CheckpointHours: 2, PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.5},
			1.5 * once, 1.25 * once, 2.5,
		},
		{bidding.Run{Hours: 1, CheckpointHours: 0.1, ReactHours: 0.25, RestartHours: 0.5}, 1, 1, 1.75}, // checked every 0.25 h
		{bidding.Run{PreemptionsPerHour: 1, Nodes: 1, RestartHours: 0.5}, 0, 0, 0.5},
	} {
		q, ok := bidding.Spot(c.run)
		if !ok || math.Abs(q.Hours-c.hours) > 1e-9 || math.Abs(q.Held-c.held) > 1e-9 ||
			math.Abs(q.Guaranteed-c.guaranteed) > 1e-9 {
			t.Errorf("%+v: %+v, offered: %v", c.run, q, ok)
		}
	}
}

// A tiny risk counts as none, because a division by the rate would lose all precision.
func TestSpotWithTinyRisk(t *testing.T) {
	for _, rate := range []float64{5e-324, 4e-309, 1e-200, 1e-16, 1e-12} {
		q, ok := bidding.Spot(bidding.Run{
			Hours: 3, CheckpointHours: 0.5, PreemptionsPerHour: rate, Nodes: 1, RestartHours: 1,
		})
		if !ok || math.Abs(q.Hours-3) > 1e-9 || math.Abs(q.Held-3) > 1e-9 {
			t.Errorf("interrupted %v times an hour, three hours take %+v (offered: %v)", rate, q, ok)
		}
	}
}
