package chart

import (
	"math"
	"strconv"
)

// Tick is a named value.
type Tick struct {
	At    float64
	Label string
}

// Ticks returns about the given number of round values of a range, each with enough digits to distinguish them.
func Ticks(from, to float64, about int) (out []Tick) {
	raw := (to - from) / float64(about)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * power
	for _, m := range []float64{5, 2.5, 2, 1} {
		if m*power >= raw {
			step = m * power
		}
	}
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	if s := step * math.Pow(10, float64(digits)); math.Abs(s-math.Round(s)) > 1e-6 {
		digits++ // 2.5
	}
	for k := int(math.Ceil(from/step - 1e-9)); float64(k)*step <= to+1e-9*step; k++ {
		out = append(out, Tick{float64(k) * step, strconv.FormatFloat(float64(k)*step, 'f', digits, 64)})
	}
	return out
}

// scale maps the values of an axis to pixels.
type scale struct {
	Axis
	from, to       float64 // of the values shown
	origin, length float64 // in pixels
}

func (a Axis) scale(origin, length float64) scale {
	return scale{Axis: a, from: math.Inf(1), to: math.Inf(-1), origin: origin, length: length}
}

// shows reports whether the axis can show a value.
func (s *scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.Log || v > 0)
}

func (s *scale) cover(v float64) { s.from, s.to = min(s.from, v), max(s.to, v) }

// fixRange fixes the range once all values are known. A range that begins near 0 is extended to 0.
func (s *scale) fixRange() {
	switch {
	case s.From != 0 || s.To != 0:
		s.from, s.to = s.From, s.To
	case s.from > s.to: // no values
		s.from, s.to, s.Log = 0, 1, false
	case s.from > 0 && !s.Log && s.from < s.to/2:
		s.from = 0
	}
	if s.to <= s.from {
		s.to = s.from + 1
	}
}

func (s *scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.Log {
		v, from, to = math.Log10(v), math.Log10(from), math.Log10(to)
	}
	return s.origin + s.length*(v-from)/(to-from)
}

func (s *scale) ticks(about int) []Tick {
	switch {
	case len(s.Ticks) > 0:
		return s.Ticks
	case !s.Log:
		return Ticks(s.from, s.to, about)
	}
	factors := []float64{1} // powers of ten; on a short axis also twice and five times each
	if s.to/s.from < 1000 {
		factors = []float64{1, 2, 5}
	}
	var out []Tick
	for e := math.Floor(math.Log10(s.from)); e <= math.Log10(s.to); e++ {
		for _, m := range factors {
			if v := m * math.Pow(10, e); v >= s.from*(1-1e-9) && v <= s.to*(1+1e-9) {
				out = append(out, Tick{v, strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return out
}
