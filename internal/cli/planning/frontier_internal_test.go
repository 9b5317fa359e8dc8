package planning

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// A user who types a deadline as it is printed gets the plan that is printed next to it.
func TestCeilSpanRoundTrips(t *testing.T) {
	for hours, want := range map[float64]string{
		3.5: "3h 30m", 3.500477451605333: "3h 31m", 0.1: "6m", 0.1001: "6m 1s", 1: "1h", 1.0001: "1h 1m", 47.999: "2d",
		48.01: "2d 1h", 71.9: "3d", 59.0 / 3600: "59s",
	} {
		got := ceilSpan(hours)
		if text.Span(got) != want || got.Hours() < hours-1e-9 {
			t.Errorf("%v hours are written %s (%s), want %s", hours, text.Span(got), got, want)
		}
		var typed time.Duration
		if typed = ceilSpan(got.Hours()); typed != got {
			t.Errorf("%s is written %s", got, typed)
		}
	}
}

func TestFrontierTableMergesEqualRows(t *testing.T) {
	r := &FrontierResult{Points: []FrontierPoint{
		{Hours: 2, USD: 5}, {Hours: 2.5001, USD: 3.1}, {Hours: 2.5002, USD: 3}, {Hours: 3, USD: 2.00001}, {Hours: 4, USD: 2},
	}}
	var got []float64
	for _, p := range r.distinct().Points {
		got = append(got, p.Hours)
	}
	want := []float64{2, 2.5002, 3}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("shown are those of %v hours, want %v", got, want)
	}
	if len(r.Points) != 5 {
		t.Error("the front itself was changed")
	}
}
