package lab

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// priceSVG draws a market's price and the on-demand price over time.
func (a app) priceSVG(m *market.Market, from, to time.Time) error {
	days := func(t time.Time) float64 { return t.Sub(from).Hours() / 24 }
	spot := chart.Series{Name: "spot", Style: chart.Steps}
	if usd, ok := m.Spot.Query(from); ok {
		spot.Points = append(spot.Points, chart.Point{X: 0, Y: usd})
	}
	for i := range m.Spot.Len() {
		if at := m.Spot.At(i); at.After(from) && !at.After(to) {
			spot.Points = append(spot.Points, chart.Point{X: days(at), Y: m.Spot.USD(i)})
		}
	}
	panel := chart.Panel{
		Title: m.Name + ", from " + from.Format("2006-01-02 15:04 MST"),
		X:     chart.Axis{Label: "days", To: math.Max(days(to), 1e-6)}, Y: chart.Axis{Label: "USD per hour"},
		Series: []chart.Series{spot},
	}
	if m.OnDemandUSD > 0 {
		panel.Series = append(panel.Series, chart.Series{
			Name: "on-demand", Style: chart.Dashed,
			Points: []chart.Point{{X: 0, Y: m.OnDemandUSD}, {X: days(to), Y: m.OnDemandUSD}},
		})
	}
	return chart.SVG(a.Out, panel)
}

// The size of a chart in the terminal.
const (
	chartRows    = 12
	chartColumns = 72 // if the output is not a terminal
	chartLabel   = 10
)

// priceLines draws a market's price with block characters. Each column is the highest price of its period, so that no
// spike is lost; heights have a resolution of an eighth of a character. The on-demand price is a dotted line.
func priceLines(m *market.Market, from, to time.Time, wide int) []string {
	columns := chartColumns
	if wide > 0 {
		columns = wide
	}
	columns = max(columns-chartLabel-2, 10)
	heights, top := columnMaxima(m, from, to, columns)
	top = math.Max(top, m.OnDemandUSD) * 1.02
	lines := []string{fmt.Sprintf("%s, USD per hour", m.Name)}
	unit := top / chartRows
	for r := chartRows - 1; r >= 0; r-- {
		label := ""
		if r%3 == 2 || r == 0 {
			label = usd4(float64(r+1) * unit)
		}
		var b strings.Builder
		dotted := m.OnDemandUSD > float64(r)*unit && m.OnDemandUSD <= float64(r+1)*unit
		for _, h := range heights {
			b.WriteRune(block(h/unit-float64(r), dotted))
		}
		lines = append(lines, fmt.Sprintf("%*s │%s", chartLabel-1, label, b.String()))
	}
	end := to.Format("2006-01-02")
	gap := max(columns-2*len(end), 1)
	lines = append(lines, strings.Repeat(" ", chartLabel)+"└"+strings.Repeat("─", columns),
		strings.Repeat(" ", chartLabel+1)+from.Format("2006-01-02")+strings.Repeat(" ", gap)+end)
	if m.OnDemandUSD > 0 {
		lines = append(lines, fmt.Sprintf("┄ on-demand, %s USD", usd4(m.OnDemandUSD)))
	}
	return lines
}

// block returns the character for a column that fills a share of a row.
func block(fill float64, dotted bool) rune {
	eighths := int(math.Round(8 * fill))
	switch {
	case eighths >= 8:
		return '█'
	case eighths > 0:
		return []rune(" ▁▂▃▄▅▆▇")[eighths]
	case dotted:
		return '┄'
	}
	return ' '
}

// columnMaxima returns the highest price in each of N equal periods (N = columns), and the overall maximum.
func columnMaxima(m *market.Market, from, to time.Time, columns int) (heights []float64, top float64) {
	heights = make([]float64, columns)
	span := max(to.Sub(from), time.Second)
	for c := range heights {
		begin := from.Add(time.Duration(float64(span) * float64(c) / float64(columns)))
		heights[c], _ = m.Spot.Query(begin)
	}
	for i := range m.Spot.Len() {
		at := m.Spot.At(i)
		if at.Before(from) || at.After(to) {
			continue
		}
		c := min(int(float64(at.Sub(from))/float64(span)*float64(columns)), columns-1)
		heights[c] = max(heights[c], m.Spot.USD(i))
	}
	for _, h := range heights {
		top = max(top, h)
	}
	return heights, top
}
