package market_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// after returns a series with prices at times given in minutes after New Year.
func after(t *testing.T, prices map[int]float64) *market.Series {
	t.Helper()
	var s market.Series
	for minute := range 10000 {
		if usd, ok := prices[minute]; ok {
			if err := s.Append(newYear.Add(time.Duration(minute)*time.Minute), usd); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &s
}

func TestPriceHoldsUntilNextEntry(t *testing.T) {
	s := after(t, map[int]float64{10: 1, 20: 2, 50: 3})
	for minute, want := range map[int]float64{9: 0, 10: 1, 19: 1, 20: 2, 49: 2, 50: 3, 5000: 3} {
		usd, ok := s.Query(newYear.Add(time.Duration(minute) * time.Minute))
		if usd != want || ok != (want > 0) {
			t.Errorf("after %d minutes: %v %v, not %v", minute, usd, ok, want)
		}
	}
	first, last := s.Span()
	if !first.Equal(newYear.Add(10*time.Minute)) || !last.Equal(newYear.Add(50*time.Minute)) {
		t.Errorf("from %v to %v", first, last)
	}
	if first, last := new(market.Series).Span(); !first.IsZero() || !last.IsZero() {
		t.Errorf("of nothing: from %v to %v", first, last)
	}
	if h := new(market.Series).Hourly(); len(h.USD) != 0 || !h.Start.IsZero() {
		t.Errorf("of nothing: %+v", h)
	}
}

// A failed Append must leave the series unchanged. Its error names both times.
func TestAppendRejectsBadEntries(t *testing.T) {
	s := after(t, map[int]float64{10: 1, 20: 2})
	for _, at := range []time.Duration{0, 10 * time.Minute, 20 * time.Minute} {
		err := s.Append(newYear.Add(at), 5)
		if !errors.Is(err, market.ErrUnordered) || !strings.Contains(err.Error(), "after 2026-01-01T00:20:00Z") {
			t.Errorf("a price after %v: %v", at, err)
		}
	}
	for _, usd := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := s.Append(newYear.Add(time.Hour), usd); !errors.Is(err, market.ErrBadPrice) {
			t.Errorf("%v: %v", usd, err)
		}
	}
	if s.Len() != 2 || s.USD(1) != 2 {
		t.Errorf("%d entries", s.Len())
	}
	if err := s.Append(newYear.Add(20*time.Minute+time.Millisecond), math.SmallestNonzeroFloat64); err != nil {
		t.Error(err)
	}
}

// The hourly grid starts at the first full hour and ends with the last price. Each hour has the price at its start.
func TestHourlyUsesPriceAtHourStart(t *testing.T) {
	for _, c := range []struct {
		prices map[int]float64
		start  time.Duration
		want   []float64
	}{
		{map[int]float64{0: 1}, 0, []float64{1}},
		{map[int]float64{1: 1}, time.Hour, nil},
		{map[int]float64{59: 1, 60: 2, 61: 3, 240: 4}, time.Hour, []float64{2, 3, 3, 4}},
		{map[int]float64{0: 1, 59: 2, 239: 3}, 0, []float64{1, 2, 2, 2}},
	} {
		h := after(t, c.prices).Hourly()
		if !h.Start.Equal(newYear.Add(c.start)) || !slices.Equal(h.USD, c.want) {
			t.Errorf("%v: %+v, not %v", c.prices, h, c.want)
		}
	}
}

// Compact removes entries that repeat the previous price, and entries that ended before the cut. The price at the cut
// and the last entry stay. An empty series does not change.
func TestCompact(t *testing.T) {
	for _, c := range []struct {
		name   string
		prices map[int]float64
		before int // in minutes; 0 means no cut
		want   []float64
	}{
		{"repeated", map[int]float64{0: 1, 10: 1, 20: 2, 30: 2, 40: 1}, 0, []float64{1, 2, 1}},
		{"the last says until when", map[int]float64{0: 1, 10: 1, 20: 1}, 0, []float64{1, 1}},
		{"one", map[int]float64{0: 1}, 0, []float64{1}},
		{"cut within", map[int]float64{0: 1, 10: 2, 20: 3, 30: 4}, 15, []float64{2, 3, 4}},
		{"cut at an entry", map[int]float64{0: 1, 10: 2, 20: 3, 30: 4}, 20, []float64{3, 4}},
		{"cut before all", map[int]float64{10: 2, 20: 3}, 5, []float64{2, 3}},
		{"cut after all", map[int]float64{10: 2, 20: 3}, 50, []float64{3}},
		{"nothing", nil, 5, nil},
	} {
		s := after(t, c.prices)
		cut := time.Time{}
		if c.before > 0 {
			cut = newYear.Add(time.Duration(c.before) * time.Minute)
		}
		s.Compact(cut)
		var got []float64
		for i := range s.Len() {
			got = append(got, s.USD(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// The mean over a span is the average of the price in each minute. The span may begin anywhere in the series.
func TestMeanAveragesMinutes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		prices := map[int]float64{}
		for range rapid.IntRange(1, 12).Draw(r, "prices") {
			prices[rapid.IntRange(0, 90).Draw(r, "minute")] = float64(rapid.IntRange(1, 9).Draw(r, "usd"))
		}
		s := after(t, prices)
		from := rapid.IntRange(0, 100).Draw(r, "from")
		to := rapid.IntRange(from-2, 130).Draw(r, "to")
		sum, watched := 0.0, true
		for minute := from; minute < to; minute++ {
			usd, ok := s.Query(newYear.Add(time.Duration(minute) * time.Minute))
			sum, watched = sum+usd, watched && ok
		}
		mean, ok := s.Mean(newYear.Add(time.Duration(from)*time.Minute), newYear.Add(time.Duration(to)*time.Minute))
		if ok != (watched && to > from) {
			r.Fatalf("from %d to %d of %v: ok %v", from, to, prices, ok)
		}
		if want := sum / float64(to-from); ok && math.Abs(mean-want) > 1e-9 {
			r.Fatalf("from %d to %d of %v: %v, not %v", from, to, prices, mean, want)
		}
	})
}

// ReadQuotes must return the quotes that WriteQuotes wrote. The file is sorted by time over all markets.
func TestWriteQuotesRoundTrip(t *testing.T) {
	a := &market.Market{Name: "a-x", Type: "a", Zone: "x", OnDemandUSD: 0.1,
		Spot: after(t, map[int]float64{0: 0.01, 30: 1.0 / 3})}
	b := &market.Market{Name: "b-y", Type: "b", Zone: "y", Spot: after(t, map[int]float64{0: 7, 10: 8})}
	var out strings.Builder
	if err := market.WriteQuotes(&out, []*market.Market{a, b}); err != nil {
		t.Fatal(err)
	}
	want := quotesHead +
		"2026-01-01T00:00:00Z,a,,,x,0.01,0.1\n" +
		"2026-01-01T00:00:00Z,b,,,y,7,\n" +
		"2026-01-01T00:10:00Z,b,,,y,8,\n" +
		"2026-01-01T00:30:00Z,a,,,x,0.3333333333333333,0.1\n"
	if out.String() != want {
		t.Errorf("written:\n%snot:\n%s", &out, want)
	}
	quotes, err := market.ReadQuotes("q.csv", strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(quotes) != 2 || quotes[0].Spot.USD(1) != 1.0/3 || quotes[0].OnDemandUSD != 0.1 || quotes[1].OnDemandUSD != 0 {
		t.Errorf("%+v", quotes)
	}
	for _, room := range []int{0, len(quotesHead)} {
		if err := market.WriteQuotes(&fullAfter{room}, []*market.Market{a, b}); !errors.Is(err, errDisk) {
			t.Errorf("a disk that is full after %d bytes: %v", room, err)
		}
	}
	many := &market.Market{Type: "m", Zone: "z", Spot: &market.Series{}}
	for i := range 1000 { // more than a writer buffers
		if err := many.Spot.Append(newYear.Add(time.Duration(i)*time.Hour), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := market.WriteQuotes(&fullAfter{0}, []*market.Market{many}); !errors.Is(err, errDisk) {
		t.Errorf("a full disk: %v", err)
	}
}

// fullAfter is a disk with space for this number of bytes.
type fullAfter struct{ room int }

func (f *fullAfter) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, errDisk
	}
	f.room -= len(p)
	return len(p), nil
}

// Merge adds the prices that are newer than the last one. If the newer series has an on-demand price, it replaces the
// old one.
func TestMerge(t *testing.T) {
	m := &market.Market{OnDemandUSD: 0.1, Spot: after(t, map[int]float64{0: 1, 10: 2})}
	added, err := m.Merge(&market.Market{Spot: after(t, map[int]float64{0: 9, 10: 9, 11: 3, 20: 4})})
	if err != nil || added != 2 || m.Spot.Len() != 4 || m.Spot.USD(1) != 2 || m.Spot.USD(2) != 3 || m.OnDemandUSD != 0.1 {
		t.Errorf("%d added, %v: %+v", added, err, m)
	}
	fresh := &market.Market{Spot: &market.Series{}}
	added, err = fresh.Merge(&market.Market{OnDemandUSD: 0.2, Spot: m.Spot})
	if err != nil || added != 4 || fresh.OnDemandUSD != 0.2 {
		t.Errorf("%d added to nothing, %v: %+v", added, err, fresh)
	}
}
