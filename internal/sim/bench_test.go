package sim

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// The seeds that BenchmarkStep simulates. They are enough worlds that a single busy one does not dominate the result.
const (
	benchSeed    = 5_000_000
	benchSeeds   = 40
	benchCrowded = 4
)

// BenchmarkStep measures the cost of one simulated step, with all checks. Each run simulates the same worlds: those
// of `tradewind-lab chaos` without flags, and crowded ones.
func BenchmarkStep(b *testing.B) {
	for _, mix := range []struct {
		name  string
		seeds uint64
		opt   Options
	}{
		{"standard", benchSeeds, Options{}},
		{"crowded", benchCrowded, Options{Jobs: 14}},
	} {
		b.Run(mix.name, func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(GCPercent))
			steps := 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				for seed := range mix.seeds {
					r := Run(benchSeed+seed, mix.opt)
					if r.Violation != nil {
						b.Fatal(r.Violation)
					}
					steps += r.Steps
				}
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(steps), "allocs/step")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(steps), "B/step")
		})
	}
}
