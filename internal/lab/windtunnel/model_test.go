package windtunnel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// The test simulates the paper's setting: schedulers take slots without seeing each other's choices. The number of
// conflicts must be near the expected one (ATC '21, §3), which is calculated from the values that taken returns.
func TestTurnoverConflictsMatchesSimulation(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		schedulers, slots, each, candidates int
		variance                            float64
	}{
		{20, 10_000, 300, 1, 0}, {5, 1000, 200, 1, 0}, {20, 10_000, 200, 0, 0.04}, {20, 20_000, 200, 2, 0.04}, {2, 100, 100, 1, 0},
	} {
		var free [][]int32
		var sizes []float64
		next := int32(0)
		for _, g := range gradesOf(c.variance) {
			var list []int32
			for range int(math.Round(g.Share * float64(c.slots))) {
				list = append(list, next)
				next++
			}
			free, sizes = append(free, list), append(sizes, g.Share*float64(c.slots))
		}
		conflicts, rounds := 0, 20
		for range rounds {
			used := map[int32]bool{}
			for range c.schedulers {
				v := parsync.NewView(1, len(free))
				v.Refresh(0, free)
				for range c.each {
					var slot int32
					if c.candidates > 0 {
						slot, _ = v.Sample(c.candidates, random.IntN)
					} else {
						slot, _ = v.Take(parsync.QualityFirst, random.IntN)
					}
					if used[slot] {
						conflicts++
					}
					used[slot] = true
				}
			}
		}
		got, want := float64(conflicts)/float64(rounds), 0.0
		n := float64(c.schedulers)
		for i, k := range taken(float64(c.each), sizes, c.candidates) {
			want += n*k - sizes[i] + sizes[i]*math.Pow(1-k/sizes[i], n)
		}
		if math.Abs(got-want) > 0.03*want {
			t.Errorf("%+v: %.1f conflicts, expected %.1f", c, got, want)
		}
	}
}

func TestGradesCoverAllSlots(t *testing.T) {
	for _, variance := range []float64{0, 1e-6, 0.01, 0.04, 1} {
		share, mean := 0.0, 0.0
		for _, g := range gradesOf(variance) {
			share += g.Share
			mean += g.Share * g.Score
		}
		if math.Abs(share-1) > 1e-9 || math.Abs(mean-1) > 1e-3 {
			t.Errorf("variance %v: shares of %v, a mean of %v", variance, share, mean)
		}
	}
}
