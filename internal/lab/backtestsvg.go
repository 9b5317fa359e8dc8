package lab

import (
	"math"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
)

// backtestSVG draws the cost of each policy as a share of on-demand: over the deadline if there are several, otherwise
// as bars.
func (a app) backtestSVG(title string, groups []backtest.Group) error {
	panel := chart.Panel{Title: title, Y: chart.Axis{Label: "share of on-demand cost"}}
	names := sortedPolicies(groups[0].Policies)
	if len(groups) == 1 {
		points, most := []chart.Point{}, 0.0
		for i, name := range names {
			panel.X.Ticks = append(panel.X.Ticks, chart.Tick{At: float64(i), Label: name})
			points = append(points, chart.Point{X: float64(i), Y: groups[0].Policies[name].ToClairvoyant})
			if name != backtest.OnDemand {
				most = max(most, groups[0].Policies[name].ToClairvoyant)
			}
		}
		panel.X.From, panel.X.To = -0.5, float64(len(names))-0.5
		// On-demand is several times more expensive than all others; next to it they would look alike.
		if names[0] == backtest.OnDemand && len(names) > 1 {
			panel.X.Ticks, points, panel.X.From = panel.X.Ticks[1:], points[1:], 0.5
		}
		panel.Y.Label, panel.Y.From, panel.Y.To = "times the clairvoyant's cost", 0.99, most+0.02
		panel.Series = []chart.Series{{Style: chart.Points, Points: points}}
		return chart.SVG(a.Out, panel)
	}
	panel.X.Label = "deadline, times the work"
	panel.X.From, panel.X.To = math.Inf(1), math.Inf(-1)
	for _, g := range groups {
		x, err := strconv.ParseFloat(g.Name, 64)
		if err != nil {
			return err
		}
		panel.X.From, panel.X.To = min(panel.X.From, x), max(panel.X.To, x)
	}
	for _, name := range names {
		if name == backtest.OnDemand {
			continue
		}
		s := chart.Series{Name: name}
		for _, g := range groups {
			x, err := strconv.ParseFloat(g.Name, 64)
			if err != nil {
				return err
			}
			s.Points = append(s.Points, chart.Point{X: x, Y: g.Policies[name].ToOnDemand})
		}
		panel.Series = append(panel.Series, s)
	}
	return chart.SVG(a.Out, panel)
}
