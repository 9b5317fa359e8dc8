package bidding_test

import (
	"context"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// BenchmarkBuild builds the table that RESULTS.md reports: 64 levels × 168 hours of work × 168 hours of time.
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

// BenchmarkWorth builds the table that a broker keeps for a task, on a spot market that has changed thirty times.
func BenchmarkWorth(b *testing.B) {
	prices := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i := range 30 {
		at = at.Add(time.Duration(40+i*17%90) * time.Minute)
		prices.Observe(at, 0.3+0.1*float64(i*7%5))
	}
	l := bidding.LiveTask{Prices: prices, USD: 0.4, OnDemandUSD: 1, Work: 6, Left: 11, LossesPerHour: 0.05, Restart: 0.3}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bidding.NewWorth(context.Background(), l); err != nil {
			b.Fatal(err)
		}
	}
}
