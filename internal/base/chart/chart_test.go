package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
)

func TestSVGContainsLabels(t *testing.T) {
	var out bytes.Buffer
	err := chart.SVG(&out,
		chart.Panel{Title: "Delay", X: chart.Axis{Label: "seconds"}, Y: chart.Axis{Label: "wait", Log: true}, Series: []chart.Series{
			{Name: "ours", Points: []chart.Point{{0, 1}, {1, 10}, {2, 0}, {3, math.NaN()}}},
			{Name: "theirs", Style: chart.Dashed, Points: []chart.Point{{0, 2}, {3, 20}}},
		}},
		chart.Panel{Title: "<Price> & more", X: chart.Axis{Ticks: []chart.Tick{{At: 1, Label: "noon"}}}, Series: []chart.Series{
			{Name: "price", Style: chart.Steps, Points: []chart.Point{{0, 1}, {2, 3}}},
			{Style: chart.Points, Points: []chart.Point{{1, 1}}},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Delay", "seconds", "wait", "ours", "theirs", "&lt;Price&gt; &amp; more", "noon"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the chart", want)
		}
	}
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSVGRejectsEmptyPanels(t *testing.T) {
	if err := chart.SVG(io.Discard, chart.Panel{Series: []chart.Series{{Name: "a"}}}); !errors.Is(err, chart.ErrEmpty) {
		t.Errorf("%v", err)
	}
}

func TestTicksAreRoundAndDistinct(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     string
	}{
		{0, 100, "0 20 40 60 80 100"}, {-1, 1, "-1.0 -0.5 0.0 0.5 1.0"}, {0.99, 1.26, "1.00 1.05 1.10 1.15 1.20 1.25"}, {0, 14, "0.0 2.5 5.0 7.5 10.0 12.5"},
	} {
		var got []string
		for _, tick := range chart.Ticks(c.from, c.to, 6) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("from %v to %v: %v, not %s", c.from, c.to, got, c.want)
		}
	}
}
