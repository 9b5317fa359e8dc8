package windtunnel

import "github.com/tradewind-broker/tradewind/internal/base/chart"

// Panels draws delay, quality and conflicts of several runs over time.
func Panels(runs []*Result) []chart.Panel {
	seconds := chart.Axis{Label: "virtual time (s)"}
	panels := []chart.Panel{
		{Title: "Scheduling delay", X: seconds, Y: chart.Axis{Label: "mean (s)", Log: true}},
		{Title: "Quality of the slots taken", X: seconds, Y: chart.Axis{Label: "mean score"}},
		{Title: "Conflicts", X: seconds, Y: chart.Axis{Label: "per second"}},
	}
	for _, r := range runs {
		var points [3][]chart.Point
		for _, p := range r.Series {
			for i, y := range []float64{p.Delay, p.Quality, float64(p.Conflicts)} {
				points[i] = append(points[i], chart.Point{X: p.At, Y: y})
			}
		}
		for i := range panels {
			panels[i].Series = append(panels[i].Series, chart.Series{Name: string(r.Policy), Points: points[i]})
		}
	}
	return panels
}
