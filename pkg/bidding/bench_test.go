package bidding_test

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// BenchmarkBuild builds the largest table that is asked for: 64 levels × 168 hours of work × 168 hours of time.
func BenchmarkBuild(b *testing.B) {
	m := denseModel(64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bidding.Build(context.Background(), m, 168, 168); err != nil {
			b.Fatal(err)
		}
	}
}

// denseModel is a chain of n levels in which every transition is possible.
func denseModel(n int) bidding.Model {
	m := bidding.Model{OnDemandUSD: 1, USD: make([]float32, n), P: make([]float32, n*n)}
	for s := range n {
		m.USD[s] = 0.05 + 1.2*float32(s)/float32(n)
		sum := float32(0)
		for q := range n {
			d := float32(s - q)
			m.P[s*n+q] = 1 / (1 + d*d)
			sum += m.P[s*n+q]
		}
		for q := range n {
			m.P[s*n+q] /= sum
		}
	}
	return m
}
