package backtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// data opens a folder of the shared data. If it is missing, it skips the test.
func data(t *testing.T, dir string) fs.FS {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "shared", "data", dir)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the public data of ../shared/data is missing: %v", err)
	}
	return os.DirFS(path)
}

func kept(t *testing.T, name string, policies map[string]backtest.Result) {
	t.Helper()
	least := policies[backtest.Clairvoyant].USD
	for policy, r := range policies {
		if r.Misses != 0 {
			t.Errorf("%s: %s missed %d deadlines", name, policy, r.Misses)
		}
		if r.USD < least*(1-1e-9) || r.ToClairvoyant < 1-1e-9 {
			t.Errorf("%s: %s costs %v (×%v), the clairvoyant %v", name, policy, r.USD, r.ToClairvoyant, least)
		}
	}
}

// TestBidMeetsDeadlinesOnRecordedPrices replays every market of every data set, with and without restart time, with
// tight and loose deadlines. It also compares this project's policy with its known results.
func TestBidMeetsDeadlinesOnRecordedPrices(t *testing.T) {
	markets, err := market.ReadMarkets(data(t, "spot-prices/aws-2016"))
	if err != nil {
		t.Fatal(err)
	}
	most := map[int]float64{26: 1.03, 36: 1.05, 48: 1.06}
	for _, o := range []backtest.BidOptions{
		{Work: 24, Deadline: 24, Every: 197}, {Work: 24, Deadline: 26, Every: 48}, {Work: 24, Deadline: 36, Every: 48}, {Work: 24, Deadline: 48, Every: 48},
		{Work: 10.5, Deadline: 14, Every: 181, Restart: 0.1}, {Work: 24, Deadline: 26, Every: 181, Restart: 1}, {Work: 3, Deadline: 40, Every: 181, Restart: 0.5},
	} {
		o.Train = 0.5
		r, err := backtest.Bid(context.Background(), markets, o)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%vh by %dh, starts take %vh", o.Work, o.Deadline, o.Restart)
		kept(t, name, r.Policies)
		ours := r.Policies[backtest.Markov]
		if o.Deadline == 36 && ours.USDToClairvoyant > 1.045 || o.Deadline == 48 && ours.USDToClairvoyant > 1.07 {
			t.Errorf("%s: the mean cost of our policy is ×%.4f of the clairvoyant's", name, ours.USDToClairvoyant)
		}
		// with only an eighth of the start times
		if limit := most[o.Deadline]; o.Every == 48 && ours.ToClairvoyant > limit+0.005 {
			t.Errorf("%s: our policy is ×%.4f of the clairvoyant, the limit is %.2f", name, ours.ToClairvoyant, limit)
		}
		for _, other := range []string{backtest.OnDemand, backtest.Spot, backtest.Greedy, backtest.AIB, backtest.UniformProgress, backtest.BFRC} {
			if o.Every == 48 && ours.USD >= r.Policies[other].USD {
				t.Errorf("%s: our policy costs %.4f, %s %.4f", name, ours.USD, other, r.Policies[other].USD)
			}
		}
	}
}

func TestBidMeetsDeadlinesOnCurrentClouds(t *testing.T) {
	for _, set := range []string{"spot-prices/gcp-2026", "spot-prices/azure-2026"} {
		markets, err := market.ReadMarkets(data(t, set))
		if err != nil {
			t.Fatal(err)
		}
		var some []*market.Market // every fiftieth market is enough, because prices change rarely
		for i := 0; i < len(markets); i += 50 {
			some = append(some, markets[i])
		}
		r, err := backtest.Bid(context.Background(), some, backtest.BidOptions{Work: 12, Deadline: 18, Every: 97, Train: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		kept(t, set, r.Policies)
	}
}

func TestAvailabilityMeetsDeadlines(t *testing.T) {
	traces, err := market.ReadTraces(data(t, "spot-availability"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []backtest.AvailabilityOptions{
		{Work: 20, Deadline: 20.2, Changeover: 0.2, Every: 700}, {Work: 20, Deadline: 21.6, Changeover: 0.2, Every: 700},
		{Work: 12.34, Deadline: 19, Changeover: 0.1, Every: 700, Together: true}, {Work: 30, Deadline: 36, Changeover: 0, Every: 700},
		{Work: 20, Deadline: 26, Changeover: 1, Every: 700, Nodes: 4},
	} {
		o.SpotRatio = 0.333
		r, err := backtest.Availability(context.Background(), traces, o)
		if err != nil {
			t.Fatal(err)
		}
		kept(t, fmt.Sprintf("%+v", o), r.Policies)
	}
}

func TestWorkflowMeetsDeadlines(t *testing.T) {
	markets, err := market.ReadMarkets(data(t, "spot-prices/aws-2016"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"Montage_25.xml.gz", "Sipht_30.xml.gz"} {
		job, err := read.File(filepath.Join("..", "..", "..", "..", "shared", "data", "workflows", "dax", file))
		if err != nil {
			t.Fatal(err)
		}
		r, err := backtest.Workflow(context.Background(), job, markets, backtest.WorkflowOptions{
			Deadlines: []float64{1, 1.1, 2.5}, Repeats: 5, Seed: 7, Train: 0.5, Hours: 24, Restart: 0.25,
		})
		if err != nil {
			t.Fatal(err)
		}
		kept(t, file, r.Policies)
		again, err := backtest.Workflow(context.Background(), job, markets, backtest.WorkflowOptions{
			Deadlines: []float64{1, 1.1, 2.5}, Repeats: 5, Seed: 7, Train: 0.5, Hours: 24, Restart: 0.25,
		})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := text(t, r), text(t, again); a != b {
			t.Errorf("the same seed gave\n%s\nand\n%s", a, b)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// seriesOf returns a market of hourly prices.
func seriesOf(t *rapid.T, hourly []float64) *market.Market {
	m := &market.Market{Name: "m-z", Type: "m", Zone: "z", Spot: &market.Series{}, OnDemandUSD: 1}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, usd := range hourly {
		if err := m.Spot.Append(at.Add(time.Duration(i)*time.Hour), usd); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestClairvoyantIsOptimal uses random prices. The clairvoyant must be as good as the best way of spending each hour,
// and no policy may be better than the clairvoyant.
func TestClairvoyantIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const deadline = 7
		hourly := rapid.SliceOfN(rapid.Float64Range(0.01, 1.5), 2*deadline, 2*deadline).Draw(t, "hourly")
		work := rapid.IntRange(1, deadline-1).Draw(t, "work")
		restart := rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "restart")
		r, err := backtest.Bid(context.Background(), []*market.Market{seriesOf(t, hourly)}, backtest.BidOptions{
			Work: float64(work), Deadline: deadline, Every: 100, Train: 0.5, Restart: restart,
		})
		if err != nil {
			t.Fatal(err)
		}
		least := math.Inf(1)
		prices := hourly[deadline:]
		for plan := range int(math.Pow(3, deadline)) {
			usd, done, on := 0.0, 0.0, 0
			for h := range deadline {
				now := plan % 3
				plan /= 3
				if done >= float64(work)-1e-9 {
					break
				}
				if now > 0 {
					usd += []float64{0, prices[h], 1}[now]
					done++
					if now != on {
						done -= restart
					}
				}
				on = now
			}
			if done >= float64(work)-1e-9 {
				least = math.Min(least, usd)
			}
		}
		if got := r.Policies[backtest.Clairvoyant].USD; math.Abs(got-least) > 1e-9 {
			t.Fatalf("the clairvoyant pays %v, the cheapest of all ways %v", got, least)
		}
		for name, p := range r.Policies {
			if p.Misses > 0 || p.USD < least-1e-9 {
				t.Fatalf("%s: %v, %d misses; the minimum is %v", name, p.USD, p.Misses, least)
			}
		}
	})
}

// On random traces, many with rapid changes, every policy must meet its deadline.
func TestAvailabilityMeetsDeadlinesOnRandomTraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var traces []*market.Trace
		for z := range rapid.IntRange(1, 3).Draw(t, "zones") {
			tr := &market.Trace{Name: fmt.Sprintf("d/z%d", z), Gap: 10 * time.Minute}
			for range 90 {
				tr.Available = append(tr.Available, rapid.Int32Range(0, 1).Draw(t, "up"))
			}
			traces = append(traces, tr)
		}
		o := backtest.AvailabilityOptions{
			Work: rapid.Float64Range(0.1, 8).Draw(t, "work"), Changeover: rapid.SampledFrom([]float64{0, 0.05, 0.4, 1}).Draw(t, "changeover"),
			SpotRatio: 0.3, Every: 2, Together: rapid.Bool().Draw(t, "together"),
		}
		o.Deadline = o.Work + o.Changeover + rapid.Float64Range(0, 5).Draw(t, "slack")
		r, err := backtest.Availability(context.Background(), traces, o)
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range r.Policies {
			if p.Misses > 0 {
				t.Fatalf("%s missed %d deadlines with %+v", name, p.Misses, o)
			}
			if p.USD < r.Policies[backtest.Clairvoyant].USD-1e-6 {
				t.Fatalf("%s costs %v, the clairvoyant %v", name, p.USD, r.Policies[backtest.Clairvoyant].USD)
			}
		}
	})
}

func TestBidRejectsBadOptions(t *testing.T) {
	for name, o := range map[string]backtest.BidOptions{
		"no work":        {Deadline: 5, Every: 1, Train: 0.5},
		"too little":     {Work: 6, Deadline: 5, Every: 1, Train: 0.5},
		"no policy":      {Work: 2, Deadline: 5, Every: 1, Train: 0.5, Policies: []string{"luck"}},
		"no training":    {Work: 2, Deadline: 5, Every: 1},
		"no time":        {Work: 2, Deadline: 5, Train: 0.5},
		"a long restart": {Work: 2, Deadline: 5, Every: 1, Train: 0.5, Restart: 2},
		"no data":        {Work: 2, Deadline: 5, Every: 1, Train: 0.5},
	} {
		if _, err := backtest.Bid(context.Background(), nil, o); !errors.Is(err, backtest.ErrBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOfTypesKeepsFamiliesAndTypes(t *testing.T) {
	var markets []*market.Market
	for _, name := range []string{"m3.medium", "m3.large", "m4.4xlarge", "Standard_D4as_v5", "n2-standard-4", "n2d-standard-4"} {
		markets = append(markets, &market.Market{Type: name})
	}
	for names, want := range map[string]string{
		"": "m3.medium m3.large m4.4xlarge Standard_D4as_v5 n2-standard-4 n2d-standard-4", "m3": "m3.medium m3.large",
		"M3.Large,m4": "m3.large m4.4xlarge", "Das_v5,n2": "Standard_D4as_v5 n2-standard-4",
	} {
		kept, err := backtest.OfTypes(markets, strings.FieldsFunc(names, func(r rune) bool { return r == ',' }))
		var got []string
		for _, m := range kept {
			got = append(got, m.Type)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v %v, want %s", names, got, err, want)
		}
	}
	// A family without prices, a family that does not exist, and a part of a name.
	for name, tells := range map[string]string{"c7a": "Dasv5, m3, m4, n2, n2d", "m33": `"m3"`, "medium": "m3"} {
		if _, err := backtest.OfTypes(markets, []string{"m3", name}); !errors.Is(err, backtest.ErrBadRequest) ||
			!strings.Contains(err.Error(), `"`+name+`"`) || !strings.Contains(err.Error(), tells) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPoliciesDoNotSeeTheFuture changes all prices from some hour on, in the market and in another market of its
// type. No order up to and including that hour may change, because a policy learns the price of an hour only after
// its order.
func TestPoliciesDoNotSeeTheFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const start, deadline = 30, 12
		price := rapid.Float64Range(0.05, 2)
		draw := func(name string) []float64 {
			return rapid.SliceOfN(price, start+deadline, start+deadline).Draw(t, name)
		}
		hourly, zone, other, otherZone := draw("hourly"), draw("zone"), draw("other"), draw("other zone")
		same := rapid.IntRange(0, deadline).Draw(t, "same")
		copy(other, hourly[:start+same])
		copy(otherZone, zone[:start+same])
		policy := rapid.SampledFrom([]string{backtest.Markov, backtest.AIB, backtest.BFRC, backtest.UniformProgress}).Draw(t, "policy")
		o := backtest.BidOptions{
			Work: 6, Deadline: deadline, Every: 1, Train: 0.5, Restart: rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "restart"),
		}
		run := func(own, kin []float64) *backtest.Timeline {
			line, err := backtest.Run(context.Background(), seriesOf(t, own), []*market.Market{seriesOf(t, kin)}, o, policy, start)
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		a, b := run(hourly, zone), run(other, otherZone)
		for i := range min(same+1, len(a.Moments), len(b.Moments)) {
			if a.Moments[i].BidUSD != b.Moments[i].BidUSD || i < same && a.Moments[i] != b.Moments[i] {
				t.Fatalf("%s in hour %d, with %d hours the same: %+v and %+v", policy, i, same, a.Moments[i], b.Moments[i])
			}
		}
	})
}
