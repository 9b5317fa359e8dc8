package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// draw writes the plots of docs/bidding.md to dir; none if dir is empty.
func draw(ctx context.Context, data, dir string) error {
	if dir == "" {
		return nil
	}
	markets, err := market.ReadMarkets(os.DirFS(filepath.Join(data, "spot-prices", "aws-2016")))
	if err != nil {
		return err
	}
	prices, err := savings(ctx, markets)
	if err != nil {
		return err
	}
	traces, err := market.ReadTraces(os.DirFS(filepath.Join(data, "spot-availability", "availability")))
	if err != nil {
		return err
	}
	machines, err := machineSavings(ctx, traces)
	if err != nil {
		return err
	}
	if err := save(filepath.Join(dir, "savings-by-deadline.svg"), prices, machines); err != nil {
		return err
	}
	for _, m := range markets {
		if m.Name == "m4.10xlarge-us-east-1a" {
			panels, err := timeline(ctx, m, markets)
			if err != nil {
				return err
			}
			return save(filepath.Join(dir, "timeline.svg"), panels...)
		}
	}
	return fmt.Errorf("%s: no market m4.10xlarge-us-east-1a", data)
}

func save(path string, panels ...chart.Panel) error {
	f, err := os.Create(path) //nolint:gosec // a path the user named
	if err != nil {
		return err
	}
	if err := chart.SVG(f, panels...); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// drawn are the policies in the plots, in a fixed order so that each has the same colour everywhere.
func drawn() []string {
	return []string{backtest.Clairvoyant, backtest.Markov, backtest.AIB, backtest.UniformProgress, backtest.Greedy,
		backtest.Spot, backtest.BFRC}
}

// savings plots the share of the on-demand cost that each policy saves on the AWS markets of 2016, by deadline.
func savings(ctx context.Context, markets []*market.Market) (chart.Panel, error) {
	names := drawn()
	p := chart.Panel{
		Title: "24 h of work on the spot markets of AWS, 2016",
		X:     chart.Axis{Label: "hours to the deadline", From: 25, To: 72},
		Y:     chart.Axis{Label: "saved of on-demand, %"}, Series: make([]chart.Series, len(names)),
	}
	for _, d := range []int{25, 26, 28, 30, 36, 42, 48, 60, 72} {
		r, err := backtest.Bid(ctx, markets, backtest.BidOptions{Work: 24, Deadline: d, Every: 24, Train: 0.5,
			Policies: names})
		if err != nil {
			return p, err
		}
		add(&p, names, float64(d), r.Policies)
	}
	return p, nil
}

// machineSavings plots the same for the availability traces, in which machines are either available or not.
func machineSavings(ctx context.Context, traces []*market.Trace) (chart.Panel, error) {
	names := drawn()
	p := chart.Panel{
		Title: "48 h of work on V100 machines of one zone, 2023",
		X:     chart.Axis{Label: "deadline, times the work", From: 1.04, To: 2},
		Y:     chart.Axis{Label: "saved of on-demand, %"}, Series: make([]chart.Series, len(names)),
	}
	for _, d := range []float64{1.04, 1.08, 1.15, 1.25, 1.5, 1.75, 2} {
		r, err := backtest.Availability(ctx, traces, backtest.AvailabilityOptions{
			Work: 48, Deadline: 48 * d, Changeover: 0.2, SpotRatio: 0.333, Every: 72, Policies: names,
		})
		if err != nil {
			return p, err
		}
		add(&p, names, d, r.Policies)
	}
	return p, nil
}

func add(p *chart.Panel, names []string, x float64, policies map[string]backtest.Result) {
	for i, name := range names {
		p.Series[i].Name = strings.Replace(name, "uniform-progress", "uniform pr.", 1) // must fit into the legend
		if name == backtest.Clairvoyant {
			p.Series[i].Style = chart.Dashed
		}
		p.Series[i].Points = append(p.Series[i].Points, chart.Point{X: x, Y: 100 * (1 - policies[name].ToOnDemand)})
	}
}

// timeline plots one run in a bad week: price, bid, machines and saved work.
func timeline(ctx context.Context, m *market.Market, all []*market.Market) ([]chart.Panel, error) {
	const start, work, deadline = 1268, 24, 48
	t, err := backtest.Run(ctx, m, all, backtest.BidOptions{Work: work, Deadline: deadline, Every: 1, Train: 0.5},
		backtest.Markov, start)
	if err != nil {
		return nil, err
	}
	spot, bid := chart.Series{Name: "spot price", Style: chart.Steps}, chart.Series{Name: "bid", Style: chart.Dashed}
	onDemand := chart.Series{Name: "on-demand",
		Points: []chart.Point{{X: 0, Y: m.OnDemandUSD}, {X: float64(len(t.Moments)), Y: m.OnDemandUSD}}}
	ran := map[bidding.Holding]*chart.Series{
		bidding.OnSpot:    {Name: "runs on spot", Style: chart.Points},
		bidding.OnDemand:  {Name: "on-demand", Style: chart.Points},
		bidding.OnNothing: {Name: "waits", Style: chart.Points},
	}
	saved := chart.Series{Name: "work saved", Points: []chart.Point{{}}}
	before := 0.0
	for _, h := range t.Moments {
		x := float64(h.Hour)
		spot.Points = append(spot.Points, chart.Point{X: x, Y: h.SpotUSD})
		bid.Points = append(bid.Points, chart.Point{X: x, Y: h.BidUSD})
		ran[h.On].Points = append(ran[h.On].Points, chart.Point{X: x + 0.5, Y: (before + h.Done) / 2})
		before = h.Done
		saved.Points = append(saved.Points, chart.Point{X: x + 1, Y: h.Done})
	}
	last := spot.Points[len(spot.Points)-1]
	spot.Points = append(spot.Points, chart.Point{X: last.X + 1, Y: last.Y})
	until := chart.Series{Name: "latest", Style: chart.Dashed,
		Points: []chart.Point{{X: deadline - work, Y: 0}, {X: deadline, Y: work}}}
	x := chart.Axis{Label: "hours", From: 0, To: deadline}
	return []chart.Panel{
		{
			Title: fmt.Sprintf("%d h of work by %d h on %s: %.2f USD, on demand %.2f", work, deadline, m.Name, t.USD,
				work*m.OnDemandUSD),
			X: x, Y: chart.Axis{Label: "USD per hour"}, Series: []chart.Series{spot, bid, onDemand},
		},
		{
			Title: "what it ran on, and the work saved at the end of each hour", X: x,
			Y:      chart.Axis{Label: "hours of work", From: 0, To: work + 1},
			Series: []chart.Series{saved, *ran[bidding.OnSpot], *ran[bidding.OnDemand], *ran[bidding.OnNothing], until},
		},
	}, nil
}
