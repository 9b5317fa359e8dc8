// Package chart draws the project's charts as SVG in one style, for light and dark pages. It is independent of the
// data.
package chart

import (
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
)

// ErrEmpty means that there is nothing to draw.
var ErrEmpty = errors.New("chart: no point to draw")

// Point is one value.
type Point struct{ X, Y float64 }

// Style is how a series is drawn.
type Style int

// The styles.
const (
	Line   Style = iota
	Steps        // a value holds until the next
	Points       // dots
	Dashed
)

// Series is one row of values, in the order of X. NaN and infinite values are omitted.
type Series struct {
	Name   string // if empty, the series is not in the legend
	Style  Style
	Points []Point
}

// Axis describes an axis.
type Axis struct {
	Label string
	Log   bool
	// From and To fix the range. If both are 0, the data determine the range.
	From, To float64
	// Ticks has named values; if empty, the axis has numbers.
	Ticks []Tick
}

// Panel is one chart.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Dimensions of a panel, in pixels. The legend is to the right of the values, so that it covers none.
const (
	width, height            = 794, 340
	left, right, top, bottom = 76, 166, 36, 52
	inWidth, inHeight        = width - left - right, height - top - bottom
	legendStep, swatch       = 18, 18
)

// The colours can be distinguished with any kind of colour vision (Okabe and Ito 2008). Black is replaced by the page's
// ink colour.
const style = `<style>
  svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 12px; --ink: #121926; --page: #ffffff; }
  .page { fill: var(--page); } text { fill: #4a5563; } .title { fill: var(--ink); font-size: 15px; font-weight: 600; }
  .grid { stroke: #8a94a3; stroke-opacity: 0.25; } .frame { stroke: #8a94a3; fill: none; }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .dashed { stroke-dasharray: 6 4; }
  @media (prefers-color-scheme: dark) { svg { --ink: #eef2f7; --page: #10151d; } text { fill: #a3adbb; } }
</style>
`

func palette() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "var(--ink)", "#999999"}
}

// SVG writes panels one below the other. It fails with ErrEmpty if no panel has a point.
func SVG(w io.Writer, panels ...Panel) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+
			"\n%[3]s",
		width, height*len(panels), style)
	fmt.Fprintf(&b, `<rect class="page" width="100%%" height="100%%"/>`+"\n")
	drawn := false
	for i := range panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", i*height)
		drawn = panels[i].draw(&b) || drawn
		b.WriteString("</g>\n")
	}
	if !drawn {
		return ErrEmpty
	}
	_, err := io.WriteString(w, b.String()+"</svg>\n")
	return err
}

// draw draws a panel, and returns whether it has a point.
func (p Panel) draw(b *strings.Builder) (drawn bool) {
	x, y := p.X.scale(left, inWidth), p.Y.scale(height-bottom, -inHeight)
	shown := make([][]Point, len(p.Series))
	for i, s := range p.Series {
		for _, q := range s.Points {
			if x.shows(q.X) && y.shows(q.Y) {
				shown[i] = append(shown[i], q)
				x.cover(q.X)
				y.cover(q.Y)
			}
		}
		drawn = drawn || len(shown[i]) > 0
	}
	x.fixRange()
	y.fixRange()
	middle := left + inWidth/2
	fmt.Fprintf(b, `<text class="title" x="%d" y="22" text-anchor="middle">%s</text>`, middle,
		html.EscapeString(p.Title))
	for _, t := range x.ticks(8) {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %dV%d"/>`, x.at(t.At), top, height-bottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x.at(t.At), height-bottom+18,
			html.EscapeString(t.Label))
	}
	for _, t := range y.ticks(6) {
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fH%d"/>`, left, y.at(t.At), width-right)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y.at(t.At)+4,
			html.EscapeString(t.Label))
	}
	fmt.Fprintf(b, `<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>`, left, top, inWidth, inHeight)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`, middle, height-12,
		html.EscapeString(p.X.Label))
	fmt.Fprintf(b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+inHeight/2,
		html.EscapeString(p.Y.Label))
	// An inner SVG clips values outside the range, with room for dots on its edge.
	const room = 4
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d" viewBox="%[1]d %[2]d %[3]d %[4]d">`+"\n",
		left-room, top-room, inWidth+2*room, inHeight+2*room)
	for i, s := range p.Series {
		s.draw(b, shown[i], &x, &y, palette()[i%len(palette())])
	}
	b.WriteString("</svg>\n")
	p.legend(b, shown)
	return drawn
}

// legend names the series that have a point.
func (p Panel) legend(b *strings.Builder, shown [][]Point) {
	y := float64(top + 8)
	for i, s := range p.Series {
		if s.Name == "" || len(shown[i]) == 0 {
			continue
		}
		x, colour := float64(width-right+12), palette()[i%len(palette())]
		if s.Style == Points {
			dot(b, x+swatch/2, y, colour)
		} else {
			stroke(b, s.Style, fmt.Sprintf("M%.1f %.1fh%d", x, y, swatch), colour)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x+swatch+6, y+4, html.EscapeString(s.Name))
		y += legendStep
	}
}

func (s Series) draw(b *strings.Builder, points []Point, x, y *scale, colour string) {
	var path strings.Builder
	for i, q := range points {
		at := fmt.Sprintf("%.1f %.1f", x.at(q.X), y.at(q.Y))
		switch {
		case s.Style == Points:
			dot(b, x.at(q.X), y.at(q.Y), colour)
		case i == 0:
			path.WriteString("M" + at)
		case s.Style == Steps:
			fmt.Fprintf(&path, "H%.1fV%.1f", x.at(q.X), y.at(q.Y))
		default:
			path.WriteString("L" + at)
		}
	}
	if path.Len() > 0 {
		stroke(b, s.Style, path.String(), colour)
	}
}

func stroke(b *strings.Builder, s Style, path, colour string) {
	class := "line"
	if s == Dashed {
		class = "line dashed"
	}
	fmt.Fprintf(b, `<path class="%s" stroke="%s" d="%s"/>`+"\n", class, colour, path)
}

func dot(b *strings.Builder, x, y float64, colour string) {
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x, y, colour)
}
