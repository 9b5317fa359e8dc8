// Package chart draws the project's charts as SVG, all in one manner, on
// gonum.org/v1/plot. It knows nothing of what it shows.
package chart

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrEmpty says that there is nothing to draw.
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

// Series is one row of values, in the order of X. Values that are not numbers are left out.
type Series struct {
	Name   string // empty stays out of the legend
	Style  Style
	Points []Point
}

// Axis is how values are read.
type Axis struct {
	Label string
	Log   bool
	// From and To fix the range; both 0 takes the data's.
	From, To float64
	// Ticks names values; empty numbers them.
	Ticks []Tick
}

// Tick is a named value.
type Tick struct {
	At    float64
	Label string
}

// Panel is one chart.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Size of a panel.
const (
	Width  = 21 * vg.Centimeter
	Height = 9 * vg.Centimeter

	legendWidth = 34 * vg.Millimeter
)

// palette are colours that people with any kind of colour vision tell apart (Okabe and Ito 2008).
func palette() []color.RGBA {
	return []color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
	}
}

// SVG writes panels below one another. It fails with ErrEmpty when no panel has a point.
func SVG(w io.Writer, panels ...Panel) error {
	canvas := vgsvg.New(Width, Height*vg.Length(max(len(panels), 1)))
	whole := draw.New(canvas)
	drawn := false
	for i := range panels {
		p, legend, err := panels[i].plot()
		if err != nil {
			return err
		}
		drawn = drawn || legend != nil
		top := vg.Length(len(panels)-i) * Height
		area := draw.Canvas{Canvas: whole.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: 0, Y: top - Height}, Max: vg.Point{X: Width, Y: top}}}
		p.Draw(draw.Crop(area, 4*vg.Millimeter, -legendWidth, 3*vg.Millimeter, -3*vg.Millimeter))
		if legend != nil { // beside the values, so that it hides none
			legend.Draw(draw.Crop(area, Width-legendWidth, -3*vg.Millimeter, 0, -12*vg.Millimeter))
		}
	}
	if !drawn {
		return ErrEmpty
	}
	_, err := canvas.WriteTo(w)
	return err
}

// plot returns a panel and its legend, which is nil where there is nothing to draw.
func (p Panel) plot() (*plot.Plot, *plot.Legend, error) {
	out := plot.New()
	out.Title.Text = p.Title
	out.Title.Padding = 2 * vg.Millimeter
	out.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	out.Add(grid)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	drawn := false
	for i, s := range p.Series {
		xys := s.points(p.X.Log, p.Y.Log)
		if len(xys) == 0 {
			continue
		}
		drawn = true
		if err := s.add(out, &legend, xys, palette()[i%len(palette())]); err != nil {
			return nil, nil, fmt.Errorf("chart: %s: %w", s.Name, err)
		}
	}
	p.X.apply(&out.X, drawn)
	p.Y.apply(&out.Y, drawn)
	if !drawn {
		return out, nil, nil
	}
	return out, &legend, nil
}

func (s Series) points(logX, logY bool) plotter.XYs {
	var xys plotter.XYs
	for _, p := range s.Points {
		bad := math.IsNaN(p.X+p.Y) || math.IsInf(p.X+p.Y, 0) || logX && p.X <= 0 || logY && p.Y <= 0
		if !bad {
			xys = append(xys, plotter.XY{X: p.X, Y: p.Y})
		}
	}
	return xys
}

func (s Series) add(out *plot.Plot, legend *plot.Legend, xys plotter.XYs, c color.RGBA) error {
	if s.Style == Points {
		dots, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		out.Add(dots)
		if s.Name != "" {
			legend.Add(s.Name, dots)
		}
		return nil
	}
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: c, Width: vg.Points(1.4)}
	switch s.Style {
	case Steps:
		line.StepStyle = plotter.PostStep
	case Dashed:
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	case Line, Points:
	}
	out.Add(line)
	if s.Name != "" {
		legend.Add(s.Name, line)
	}
	return nil
}

func (a Axis) apply(axis *plot.Axis, drawn bool) {
	axis.Label.Text = a.Label
	axis.Padding = vg.Millimeter
	if a.From != 0 || a.To != 0 {
		axis.Min, axis.Max = a.From, a.To
	} else if drawn && axis.Min > 0 && !a.Log && axis.Min < axis.Max/2 {
		axis.Min = 0
	}
	if axis.Max <= axis.Min {
		axis.Max = axis.Min + 1
	}
	axis.Tick.Marker = ticker{plot.DefaultTicks{}}
	if a.Log && drawn {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, ticker{plot.LogTicks{Prec: -1}}
	}
	if len(a.Ticks) > 0 {
		ticks := make(plot.ConstantTicks, len(a.Ticks))
		for i, t := range a.Ticks {
			ticks[i] = plot.Tick{Value: t.At, Label: t.Label}
		}
		axis.Tick.Marker = ticks
	}
}

// ticker labels the ticks of another with as many digits as tell them apart.
type ticker struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (t ticker) Ticks(from, to float64) []plot.Tick {
	ticks := t.Ticker.Ticks(from, to)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 6, 64)
		}
	}
	return ticks
}
