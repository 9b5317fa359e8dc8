package planning

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// Sizes of the plot in pixels.
const (
	plotWidth, plotHeight       = 860, 520
	plotLeft, plotRight         = 84, 36
	plotTop, plotBottom         = 76, 64
	plotInnerWidth, plotInnerHt = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
)

// plot maps hours and USD to pixels.
type plot struct {
	hours, usd axis
	b          strings.Builder
}

// axis is a range of values.
type axis struct{ from, to float64 }

// newAxis covers the values with a small margin.
func newAxis(low, high float64) axis {
	room := 0.09 * (high - low)
	if high-low <= 1e-9*math.Abs(high) {
		room = max(0.1*math.Abs(high), 0.1)
	}
	return axis{from: max(0, low-room), to: high + room}
}

func (p *plot) x(hours float64) float64 {
	return plotLeft + plotInnerWidth*(hours-p.hours.from)/(p.hours.to-p.hours.from)
}

func (p *plot) y(usd float64) float64 {
	return plotTop + plotInnerHt*(p.usd.to-usd)/(p.usd.to-p.usd.from)
}

func (p *plot) add(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

const plotStyle = `<style>
  svg { background: #ffffff; font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  .grid { stroke: #e4e8ee; stroke-width: 1; } .axis { stroke: #8a94a3; stroke-width: 1; }
  text { fill: #4a5563; font-size: 13px; } .title { fill: #121926; font-size: 18px; font-weight: 600; }
  .name { fill: #121926; font-size: 13px; font-weight: 600; } .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
  .front { fill: none; stroke: #1f6feb; stroke-width: 2; } .above { fill: #1f6feb; fill-opacity: 0.07; }
  .point { fill: #1f6feb; stroke: #ffffff; stroke-width: 1.5; } .marked { fill: #d4550b; stroke: #ffffff; stroke-width: 2; }
  .open { fill: #8a94a3; fill-opacity: 0.18; } .bound { stroke: #8a94a3; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    svg { background: #10151d; } .grid { stroke: #232b37; } text { fill: #a3adbb; } .title, .name { fill: #eef2f7; }
    .halo { stroke: #10151d; } .front { stroke: #58a6ff; } .above { fill: #58a6ff; } .point { fill: #58a6ff; stroke: #10151d; } .marked { fill: #ff9a5c; stroke: #10151d; }
  }
</style>`

// frontierPlot draws a frontier: cost over time as stairs, because between two points the faster plan is the best.
func frontierPlot(r *FrontierResult) string {
	first, last := &r.Points[0], &r.Points[len(r.Points)-1]
	p := &plot{hours: newAxis(first.Hours, last.Hours), usd: newAxis(last.USD, first.USD)}
	p.add(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s: cost over time to finish">`,
		plotWidth, plotHeight, plotWidth, plotHeight, html.EscapeString(text.Clean(r.Name)))
	p.add("%s", plotStyle)
	p.add(`<text class="title" x="%d" y="32">%s: cost by deadline</text>`, plotLeft,
		html.EscapeString(text.Clean(r.Name)))
	p.add(`<text x="%d" y="54">%s</text>`, plotLeft, html.EscapeString(r.subtitle()))
	p.axes()
	p.stair(r)
	p.marks(r)
	p.add("</svg>")
	return p.b.String()
}

func (r *FrontierResult) subtitle() string {
	s := fmt.Sprintf("%s that no other beats in both time and cost", text.Count(len(r.Points), "plan"))
	if r.Complete {
		return s + ", proven complete"
	}
	return s + "; grey: not searched, there may be others"
}

// axes draws the grid with its numbers.
func (p *plot) axes() {
	bottom, right := plotHeight-plotBottom, plotWidth-plotRight
	for _, t := range chart.Ticks(p.usd.from, p.usd.to, 6) {
		p.add(
			`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, right, p.y(t.At), p.y(t.At), plotLeft-10, p.y(t.At)+4.5, t.Label)
	}
	for _, t := range chart.Ticks(p.hours.from, p.hours.to, 8) {
		p.add(
			`<line class="grid" y1="%d" y2="%d" x1="%.1f" x2="%.1f"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			plotTop, bottom, p.x(t.At), p.x(t.At), p.x(t.At), bottom+20, t.Label)
	}
	p.add(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, plotLeft, right, bottom, bottom)
	p.add(`<text x="%d" y="%d" text-anchor="middle">guaranteed hours to finish</text>`, (plotLeft+right)/2, plotHeight-16)
	p.add(`<text transform="translate(22 %d) rotate(-90)" text-anchor="middle">USD</text>`, (plotTop+bottom)/2)
}

// stair draws the frontier, the area above it, and the gaps that were not searched.
func (p *plot) stair(r *FrontierResult) {
	right := float64(plotWidth - plotRight)
	var path strings.Builder
	for i := range r.Points {
		x, y := p.x(r.Points[i].Hours), p.y(r.Points[i].USD)
		if i == 0 {
			fmt.Fprintf(&path, "M%.1f %dV%.1f", x, plotTop, y)
		} else {
			fmt.Fprintf(&path, "H%.1fV%.1f", x, y)
		}
	}
	fmt.Fprintf(&path, "H%.1f", right)
	p.add(`<path class="above" d="%sV%dZ"/>`, path.String(), plotTop)
	for _, g := range r.Unexplored {
		x, y := p.x(g.FromHours), p.y(g.ToUSD)
		p.add(`<rect class="open" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x, y, p.x(g.ToHours)-x,
			p.y(g.FromUSD)-y)
	}
	p.add(`<path class="front" d="%s"/>`, path.String())
}

// marks draws the points, and labels the notable ones.
func (p *plot) marks(r *FrontierResult) {
	knee, n := r.knee(), len(r.Points)
	radius := 4.0
	if n > 60 {
		radius = 2.5
	}
	for i := range r.Points {
		q := &r.Points[i]
		x, y := p.x(q.Hours), p.y(q.USD)
		if low := p.y(q.BoundUSD); low > y+1 {
			p.add(`<line class="bound" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x, x, y,
				min(low, float64(plotHeight-plotBottom)))
		}
		class, size := "point", radius
		if i == 0 || i == n-1 || i == knee {
			class, size = "marked", 6
		}
		p.add(`<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s USD, guaranteed in %s, %s on spot</title></circle>`,
			class, x, y, size, text.USD(q.USD), text.Span(ceilSpan(q.Hours)), q.spot())
	}
	if n == 1 {
		p.label(&r.Points[0], "fastest and cheapest", 12, -12, "start")
		return
	}
	p.label(&r.Points[0], "fastest", 4, -12, "start")
	if knee > 0 {
		p.label(&r.Points[knee], "best of both", 12, -14, "start")
	}
	p.label(&r.Points[n-1], "cheapest", 6, 22, "end")
}

func (p *plot) label(q *FrontierPoint, name string, dx, dy float64, anchor string) {
	p.add(`<text class="halo" x="%.1f" y="%.1f" text-anchor="%s"><tspan class="name">%s</tspan>: %s USD, guaranteed in %s</text>`,
		p.x(q.Hours)+dx, p.y(q.USD)+dy, anchor, name, text.USD(q.USD), text.Span(ceilSpan(q.Hours)))
}
