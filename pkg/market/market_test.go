package market_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestStories runs the files of testdata/stories. Each story is an input file, and the expected result or error.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			in := strings.NewReader(d.Input + "\n")
			switch d.Cmd {
			case "series":
				s, err := market.ReadSeries("prices.csv", in)
				if err != nil {
					return told(t, err)
				}
				return fmt.Sprintf("%d prices, hourly %v\n", s.Len(), s.Hourly().USD)
			case "quotes":
				quotes, err := market.ReadQuotes("quotes.csv", in)
				if err != nil {
					return told(t, err)
				}
				var out strings.Builder
				for _, q := range quotes {
					_, _ = fmt.Fprintf(&out, "%s in %s: %d prices, %v on demand\n", q.Type, q.Zone, q.Spot.Len(), q.OnDemandUSD)
				}
				return out.String()
			case "on-demand":
				prices, err := market.ReadOnDemand("on-demand.csv", in)
				if err != nil {
					return told(t, err)
				}
				var out strings.Builder
				for _, machine := range slices.Sorted(maps.Keys(prices)) {
					_, _ = fmt.Fprintf(&out, "%s: %v\n", machine, prices[machine])
				}
				return out.String()
			case "trace":
				tr, err := market.ReadTrace("trace.json", in)
				if err != nil {
					return told(t, err)
				}
				return fmt.Sprintf("%d steps of %v\n", len(tr.Available), tr.Gap)
			}
			t.Fatalf("no command %s", d.Cmd)
			return ""
		})
	})
}

func told(t *testing.T, err error) string {
	t.Helper()
	if !errors.Is(err, market.ErrBadData) {
		t.Fatalf("%v is not ErrBadData", err)
	}
	return err.Error() + "\n"
}

func TestReadMarketsUsesOnDemandPrices(t *testing.T) {
	dir := fstest.MapFS{
		"a/m4.large-us-east-1a.csv": {Data: []byte("time,usd_per_hour\n2016-01-01T00:00:00Z,0.02\n2016-01-01T03:00:00Z,0.03\n")},
		"on-demand.csv":             {Data: []byte("instance_type,usd_per_hour\nm4.large,0.12\n")},
		".hidden.csv":               {Data: []byte("nonsense")},
	}
	markets, err := market.ReadMarkets(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(markets) != 1 || markets[0].Name != "m4.large-us-east-1a" || markets[0].Zone != "us-east-1a" || markets[0].OnDemandUSD != 0.12 {
		t.Errorf("%+v", markets)
	}
	delete(dir, "on-demand.csv")
	if _, err := market.ReadMarkets(dir); !errors.Is(err, market.ErrBadData) {
		t.Errorf("without an on-demand price: %v", err)
	}
	if _, err := market.ReadMarkets(fstest.MapFS{}); !errors.Is(err, market.ErrNoData) {
		t.Errorf("an empty folder: %v", err)
	}
	dir["x-y.csv.gz"] = &fstest.MapFile{Data: []byte("not gzip")}
	if _, err := market.ReadMarkets(dir); !errors.Is(err, market.ErrBadData) {
		t.Errorf("a file that is not gzipped: %v", err)
	}
}

func TestCompactKeepsHourlyPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s market.Series
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute)
			if err := s.Append(at, float64(rapid.IntRange(1, 3).Draw(t, "usd"))); err != nil {
				t.Fatal(err)
			}
		}
		before := s.Hourly()
		whole := s.Len()
		s.Compact(time.Time{})
		after := s.Hourly()
		if s.Len() > whole || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Fatalf("hourly prices were %v and are %v", before, after)
		}
		cut := s.At(s.Len() / 2).Add(time.Minute)
		usd, _ := s.Query(cut)
		s.Compact(cut)
		if again, ok := s.Query(cut); !ok || again != usd {
			t.Fatalf("the price at the cut was %v and is %v", usd, again)
		}
	})
}

func TestMeanIsWeightedByTime(t *testing.T) {
	var s market.Series
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, usd := range []float64{1, 3, 5} {
		if err := s.Append(at.Add(time.Duration(i)*time.Hour), usd); err != nil {
			t.Fatal(err)
		}
	}
	if mean, ok := s.Mean(at.Add(30*time.Minute), at.Add(4*time.Hour)); !ok || math.Abs(mean-(0.5*1+3+2*5)/3.5) > 1e-12 {
		t.Errorf("mean %v %v", mean, ok)
	}
	if _, ok := s.Mean(at.Add(-time.Hour), at); ok {
		t.Error("a mean over time that was not observed")
	}
	if err := s.Append(at, 1); !errors.Is(err, market.ErrUnordered) {
		t.Errorf("an earlier time: %v", err)
	}
	if err := s.Append(at.Add(9*time.Hour), math.NaN()); !errors.Is(err, market.ErrBadPrice) {
		t.Errorf("not a number: %v", err)
	}
}

// TestLearnRecoversKnownChain generates prices from a chain and learns a chain from them. Both must be nearly equal.
func TestLearnRecoversKnownChain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a simulation
	levels := []float64{0.1, 0.2, 0.4}
	p := [][]float64{{0.8, 0.15, 0.05}, {0.3, 0.6, 0.1}, {0.1, 0.5, 0.4}}
	s, hourly := 0, []float64{}
	for range 40000 {
		x := rng.Float64()
		for q := range levels {
			if x -= p[s][q]; x < 0 {
				s = q
				break
			}
		}
		hourly = append(hourly, levels[s])
	}
	c := market.Learn(hourly, market.ChainOptions{})
	if len(c.USD) != 3 {
		t.Fatalf("levels %v", c.USD)
	}
	for s := range levels {
		for q := range levels {
			if got := float64(c.P[s*3+q]); math.Abs(got-p[s][q]) > 0.02 {
				t.Errorf("probability from level %d to %d: %.3f, not %.3f", s, q, got, p[s][q])
			}
		}
	}
	mean := c.MeanAhead(0, 10000, 1)
	sum := 0.0
	for _, usd := range hourly {
		sum += usd
	}
	if want := sum / float64(len(hourly)); math.Abs(mean-want) > 0.01*want {
		t.Errorf("the long-run mean price is %.4f, not %.4f", mean, want)
	}
}

func TestLearnFromFewPricesIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hourly := rapid.SliceOfN(rapid.Float64Range(0.001, 10), 1, 60).Draw(t, "hourly")
		o := market.ChainOptions{
			Levels: rapid.IntRange(0, 30).Draw(t, "levels"), HalfLife: rapid.SampledFrom([]float64{0, 1, 72}).Draw(t, "half life"),
			Smoothing: rapid.SampledFrom([]float64{0, 1}).Draw(t, "smoothing"), Daily: rapid.Bool().Draw(t, "daily"),
		}
		rows(t, market.Learn(hourly, o))
	})
}

// rows checks that a chain's levels rise and that its rows are distributions.
func rows(t *rapid.T, c *market.Chain) {
	n := len(c.USD)
	if n == 0 || len(c.P) != n*n || len(c.Top) != n {
		t.Fatalf("%d levels, %d tops, %d probabilities", n, len(c.Top), len(c.P))
	}
	for s := range n {
		sum := 0.0
		for _, p := range c.P[s*n : (s+1)*n] {
			if !(p >= 0) {
				t.Fatalf("a probability of %v", p)
			}
			sum += float64(p)
		}
		if math.Abs(sum-1) > 1e-4 {
			t.Fatalf("row %d sums to %v", s, sum)
		}
		if s > 0 && !(c.USD[s] > c.USD[s-1]) {
			t.Fatalf("levels %v do not rise", c.USD)
		}
	}
}

func TestOnlineChainIsAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &market.Online{}
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(0, 60).Draw(t, "prices") {
			at = at.Add(time.Duration(rapid.IntRange(-5, 5000).Draw(t, "minutes")) * time.Minute)
			o.Observe(at, rapid.SampledFrom([]float64{-1, 0, math.NaN(), math.Inf(1), 0.01, 0.3, 0.31, 0.5, 2, 1e9}).Draw(t, "usd"))
		}
		onDemand := rapid.Float64Range(0.01, 10).Draw(t, "on demand")
		c := o.Chain(rapid.Float64Range(0.01, 200).Draw(t, "step"), rapid.Float64Range(0.01, 10).Draw(t, "usd"), onDemand)
		rows(t, c)
		if mean := c.MeanAhead(0, 24, onDemand); !(mean > 0) || mean > onDemand*(1+1e-6) {
			t.Fatalf("a mean price of %v, at most %v", mean, onDemand)
		}
	})
}

func TestOnlineLearnsPriceDurations(t *testing.T) {
	o := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for range 100 {
		o.Observe(at, 0.1)
		at = at.Add(9 * time.Hour)
		o.Observe(at, 0.9)
		at = at.Add(time.Hour)
	}
	o.Observe(at, 0.1)
	c := o.Chain(1, 0.1, 0.9)
	if mean := c.MeanAhead(c.Level(0.1, 0), 2000, 1); math.Abs(mean-0.18) > 0.02 {
		t.Errorf("the price is high for an hour in ten: the mean price is %.3f, not 0.18", mean)
	}
	high := c.Level(0.9, 0)
	if stays := c.P[high*len(c.USD)+high]; stays < 0.3 || stays > 0.45 {
		t.Errorf("a high price that lasts an hour is still there an hour later with %.2f, not e^-1", stays)
	}
}

func TestAvailabilityLearnsRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // a simulation
	a := &market.Availability{}
	up := true
	for range 200000 {
		a.Observe(up, 5*time.Minute)
		rate := 0.5
		if !up {
			rate = 2
		}
		if rng.Float64() < rate/12 {
			up = !up
		}
	}
	if lost, back := a.MeanRate(true), a.MeanRate(false); math.Abs(lost-0.5) > 0.03 || math.Abs(back-2) > 0.1 {
		t.Errorf("machines are lost at %.3f and back at %.3f per hour, not 0.5 and 2", lost, back)
	}
	if share := a.Share(); math.Abs(share-0.8) > 0.02 {
		t.Errorf("a share of %.3f, not 0.8", share)
	}
	p := a.Matrix(15 * time.Minute)
	for s := range market.States {
		sum := float32(0)
		for _, x := range p[s*market.States : (s+1)*market.States] {
			sum += x
		}
		if math.Abs(float64(sum)-1) > 1e-4 {
			t.Errorf("row %d sums to %v", s, sum)
		}
	}
}

func TestBandIsThePrior(t *testing.T) {
	rare, often := market.Availability{Band: "<5%"}, market.Availability{Band: ">20%"}
	if !(rare.MeanRate(true) < often.MeanRate(true)) {
		t.Error("the best band does not have fewer interruptions than the worst")
	}
	for range 2000 {
		rare.Observe(true, time.Hour)
		rare.Observe(false, time.Hour)
	}
	if rate := rare.MeanRate(true); rate < 0.9 {
		t.Errorf("after 2,000 losses in as many hours the rate is %v", rate)
	}
}

// The fuzz targets check that readers return without a panic, and that each error is a *BadData.

func fuzz[T any](f *testing.F, read func(string, io.Reader) (T, error), seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := read("f", strings.NewReader(text)); err != nil && !errors.Is(err, market.ErrBadData) {
			t.Fatalf("%v is not ErrBadData", err)
		}
	})
}

func FuzzReadSeries(f *testing.F) {
	fuzz(f, market.ReadSeries, "time,usd_per_hour\n2016-01-01T00:00:00Z,0.02\n2016-01-01T00:00:01Z,0.03\n", "time,usd_per_hour\n\"", "")
}

func FuzzReadQuotes(f *testing.F) {
	fuzz(f, market.ReadQuotes, "time,instance_type,accelerator,accelerator_count,zone,spot_usd_per_hour,on_demand_usd_per_hour\n2026-04-02T10:55:58Z,,A100,8,z,1,2\n", "")
}

func FuzzReadOnDemand(f *testing.F) {
	fuzz(f, market.ReadOnDemand, "instance_type,usd_per_hour\na,1\n", "instance_type,usd_per_hour\na,1\na,1\n")
}

func FuzzReadTrace(f *testing.F) {
	fuzz(f, market.ReadTrace, `{"metadata":{"gap_seconds":195},"data":[0,1,16]}`, `{"metadata":{},"data":[1e9]}`, "[")
}

func TestUnknownMarketMayReachOnDemandPrice(t *testing.T) {
	o := &market.Online{}
	c := o.Chain(1, 0.2, 1)
	low, high := c.Level(0.2, 0), c.Level(1, 0)
	if low == high || math.Abs(c.USD[low]-0.2) > 1e-6 || math.Abs(c.USD[high]-1) > 1e-6 {
		t.Fatalf("levels %v", c.USD)
	}
	if up := c.P[low*len(c.USD)+high]; up < 1e-4 || up > 0.01 {
		t.Errorf("the probability to reach it within an hour is %v", up)
	}
}

func TestAvailabilityLearnsRatesByAge(t *testing.T) {
	a := &market.Availability{}
	for range 500 { // an hour with machines, ten minutes without
		for range 12 {
			a.Observe(true, 5*time.Minute)
		}
		a.Observe(false, 5*time.Minute)
		a.Observe(false, 5*time.Minute)
	}
	if young, old := a.Rate(true, 0.05), a.Rate(true, 0.9); young > 0.1 || old < 2 {
		t.Errorf("new machines are lost at %.3f per hour, hour-old machines at %.3f", young, old)
	}
	if back := a.Rate(false, 0.05); back < 4 {
		t.Errorf("after an outage of ten minutes, machines come back at %.3f per hour", back)
	}
}
