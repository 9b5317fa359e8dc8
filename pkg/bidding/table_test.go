package bidding_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// drawModel draws a small market with levels in rising order, sometimes with a state without machines.
func drawModel(t *rapid.T, restart float64) bidding.Model {
	m := drawPrices(t, restart)
	if n := m.Levels(); n > 1 && rapid.Bool().Draw(t, "gone") {
		m.USD[n-1] = float32(math.Inf(1))
	}
	return m
}

// drawPrices draws a small market that always has a machine.
func drawPrices(t *rapid.T, restart float64) bidding.Model {
	n := rapid.IntRange(1, 5).Draw(t, "levels")
	m := bidding.Model{Restart: restart, USD: make([]float32, n), P: make([]float32, n*n)}
	m.OnDemandUSD = rapid.SampledFrom([]float64{0.5, 1, 2}).Draw(t, "on demand")
	usd := 0.0
	for q := range n {
		usd += rapid.Float64Range(0.02, 0.5).Draw(t, "usd")
		m.USD[q] = float32(usd)
	}
	for s := range n {
		sum := 0.0
		row := make([]float64, n)
		for q := range row {
			row[q] = rapid.Float64Range(0.01, 1).Draw(t, "p")
			sum += row[q]
		}
		for q := range row {
			m.P[s*n+q] = float32(row[q] / sum)
		}
	}
	return m
}

func TestTableMatchesRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		restart := rapid.IntRange(0, 2).Draw(t, "restart")
		m := drawModel(t, float64(restart))
		m.ReleaseUSD = rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "release")
		m.Fallback = rapid.Bool().Draw(t, "fallback")
		work := rapid.IntRange(1, 7).Draw(t, "work")
		left := work + rapid.IntRange(restart, 6).Draw(t, "slack")
		build := bidding.Build
		if rapid.Bool().Draw(t, "one run") {
			build = bidding.BuildRun
		}
		table, err := build(context.Background(), m, work, left)
		if err != nil {
			t.Fatal(err)
		}
		o := &oracle{m: m, memo: map[[4]int]float64{}}
		for s := range m.Levels() {
			got, want := table.Cost(float64(work), float64(left), s, bidding.OnNothing), o.value(work, left, s, bidding.OnNothing)
			if math.Abs(got-want) > 1e-4*math.Max(1, want) {
				t.Fatalf("work %d, left %d, state %d: %v, by the recursion %v", work, left, s, got, want)
			}
		}
	})
}

func TestMoreTimeNeverCostsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t, rapid.SampledFrom([]float64{0, 0.2, 1, 1.5}).Draw(t, "restart"))
		table, err := bidding.Build(context.Background(), m, 10, 24)
		if err != nil {
			t.Fatal(err)
		}
		for s := range m.Levels() {
			for _, on := range []bidding.Holding{bidding.OnNothing, bidding.OnSpot, bidding.OnDemand} {
				before := math.Inf(1)
				for left := 10.0; left <= 24; left += 0.5 {
					usd := table.Cost(9, left, s, on)
					if usd > before+1e-4 {
						t.Fatalf("9 steps of work in %v cost %v, with half a step less %v", left, usd, before)
					}
					before = usd
				}
			}
		}
	})
}

// This holds for chains in which a higher price makes high prices more likely at every later time (stochastically
// monotone). For other chains it need not hold.
func TestHigherPriceNeverCostsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t, 0)
		n := m.Levels()
		stay := rapid.Float64Range(0, 0.95).Draw(t, "stay")
		for s := range n {
			for q := range n { // all rows are equal except for a share that stays: monotone
				m.P[s*n+q] = float32((1 - stay) / float64(n))
			}
			m.P[s*n+s] += float32(stay)
		}
		table, err := bidding.Build(context.Background(), m, 8, 20)
		if err != nil {
			t.Fatal(err)
		}
		for left := 8.0; left <= 20; left++ {
			for s := 1; s < n; s++ {
				if low, high := table.Cost(8, left, s-1, 0), table.Cost(8, left, s, 0); high < low-1e-4 {
					t.Fatalf("%v steps left: level %d costs %v, the one above it %v", left, s-1, low, high)
				}
			}
		}
	})
}

// The expected cost agrees with simulated runs that follow the table.
func TestTableCostMatchesSimulation(t *testing.T) {
	for name, m := range map[string]bidding.Model{
		"prices":         walk(8, 0),
		"a start's cost": walk(8, 1),
		"machines": {
			OnDemandUSD: 1, Restart: 1, USD: []float32{0.3, float32(math.Inf(1))}, P: []float32{0.85, 0.15, 0.4, 0.6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			const work, left, repeats = 20, 32, 40000
			table, err := bidding.Build(context.Background(), m, work+2, left)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a simulation
			sum, squares := 0.0, 0.0
			for range repeats {
				usd := playTable(t, rng, table, m, work, left)
				sum += usd
				squares += usd * usd
			}
			mean := sum / repeats
			sigma := math.Sqrt((squares/repeats - mean*mean) / repeats)
			if want := table.Cost(work, left, 0, bidding.OnNothing); math.Abs(mean-want) > 4*sigma+1e-3 {
				t.Errorf("runs cost %.4f ± %.4f, expected %.4f", mean, sigma, want)
			}
		})
	}
}

// playTable simulates a run once and fails if it is late.
func playTable(t *testing.T, rng *rand.Rand, table *bidding.Table, m bidding.Model, work, left float64) (usd float64) {
	t.Helper()
	n, s, on := m.Levels(), 0, bidding.OnNothing
	for ; work > 0; left-- {
		if left <= 0 {
			t.Fatal("a run is late")
		}
		s = next(rng, m.P[s*n:(s+1)*n])
		price := float64(m.USD[s])
		if on == bidding.OnSpot && math.IsInf(price, 1) {
			on = bidding.OnNothing
		}
		c := table.Choose(work, left, s, price, on)
		switch c.On {
		case bidding.OnSpot:
			usd += price
		case bidding.OnDemand:
			usd += m.OnDemandUSD
		default:
			usd += m.ReleaseUSD
		}
		if c.On != bidding.OnNothing {
			work--
			if c.On != on {
				work += m.Restart
			}
		}
		on = c.On
	}
	return usd
}

func next(rng *rand.Rand, row []float32) int {
	x := rng.Float32()
	for q, p := range row {
		if x -= p; x < 0 {
			return q
		}
	}
	return len(row) - 1
}

// walk is a price that moves up and down by one level.
func walk(n int, restart float64) bidding.Model {
	m := bidding.Model{OnDemandUSD: 1, Restart: restart, USD: make([]float32, n), P: make([]float32, n*n)}
	for s := range n {
		m.USD[s] = 0.1 + 1.1*float32(s)/float32(n)
		m.P[s*n+s] = 0.5
		m.P[s*n+min(s+1, n-1)] += 0.25
		m.P[s*n+max(s-1, 0)] += 0.25
	}
	return m
}

func TestPaperBoundaries(t *testing.T) {
	m := walk(4, 0)
	table, err := bidding.Build(context.Background(), m, 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	if usd := table.Cost(7, 7, 0, bidding.OnNothing); math.Abs(usd-7) > 1e-5 {
		t.Errorf("with work equal to time 7 steps cost %v, not 7 on demand", usd)
	}
	// Equation 1: with one step to spare the bid is the on-demand price, and the market price is paid.
	if bid := table.Bid(1, 2, 0, bidding.OnNothing); bid != 1 {
		t.Errorf("one step of work in two: the bid is %v, not the on-demand price", bid)
	}
	if bid := table.Bid(7, 7, 0, bidding.OnNothing); bid != 0 {
		t.Errorf("a bid of %v without slack", bid)
	}
}

// TestBidIsOptimal compares the bid with all others, each used for one step and followed by the table (equation
// 8).
func TestBidIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawPrices(t, 0)
		n := m.Levels()
		table, err := bidding.Build(context.Background(), m, 6, 14)
		if err != nil {
			t.Fatal(err)
		}
		work, left := rapid.IntRange(1, 6).Draw(t, "work"), rapid.IntRange(7, 14).Draw(t, "left")
		expect := func(bid float64, s int) float64 {
			sum := 0.0
			for q, usd := range m.USD {
				x := table.Cost(float64(work), float64(left-1), q, 0)
				if float64(usd) <= bid {
					x = float64(usd) + table.Cost(float64(work-1), float64(left-1), q, 0)
				}
				sum += float64(m.P[s*n+q]) * x
			}
			return sum
		}
		for s := range n {
			bid := table.Bid(float64(work), float64(left), s, bidding.OnNothing)
			if bid > m.OnDemandUSD {
				t.Fatalf("a bid of %v above the on-demand price", bid)
			}
			for _, usd := range m.USD {
				if float64(usd) <= m.OnDemandUSD && expect(float64(usd), s) < expect(bid, s)-1e-4 {
					t.Fatalf("bid %v costs %v, bid %v only %v", bid, expect(bid, s), usd, expect(float64(usd), s))
				}
			}
		}
	})
}

func TestBuildRejectsBadModel(t *testing.T) {
	for name, spoil := range map[string]func(*bidding.Model){
		"no states":                func(m *bidding.Model) { m.USD, m.P = nil, nil },
		"a row sum too low":        func(m *bidding.Model) { m.P[0] = 0 },
		"a negative probability":   func(m *bidding.Model) { m.P[0], m.P[1] = -0.5, 1.25 },
		"a free machine":           func(m *bidding.Model) { m.USD[1] = 0 },
		"not a price":              func(m *bidding.Model) { m.OnDemandUSD = math.NaN() },
		"a negative restart":       func(m *bidding.Model) { m.Restart = -1 },
		"a restart too long":       func(m *bidding.Model) { m.Restart = 1025 },
		"free on-demand":           func(m *bidding.Model) { m.OnDemandUSD = 0 },
		"infinite on-demand price": func(m *bidding.Model) { m.OnDemandUSD = math.Inf(1) },
		"negative release cost":    func(m *bidding.Model) { m.ReleaseUSD = -1 },
	} {
		m := walk(3, 0)
		spoil(&m)
		_, err := bidding.Build(context.Background(), m, 2, 4)
		if !errors.Is(err, bidding.ErrModel) || m.Factor != nil && !strings.HasSuffix(err.Error(), "of 5") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range [][2]int{{5, 4}, {-1, 4}, {1, 1<<14 + 1}} {
		if _, err := bidding.Build(context.Background(), walk(3, 0), c[0], c[1]); !errors.Is(err, bidding.ErrModel) {
			t.Errorf("%d steps of work in %d: %v", c[0], c[1], err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := bidding.Build(ctx, walk(3, 0), 2, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// Models just within the limits are accepted, and so is work with little or no slack.
func TestBuildAcceptsLimits(t *testing.T) {
	for name, change := range map[string]func(*bidding.Model){
		"as it is":              func(*bidding.Model) {},
		"enough factors":        func(m *bidding.Model) { m.Factor = []float32{1, 1, 1, 1, 1} },
		"a long restart":        func(m *bidding.Model) { m.Restart = 1 << 10 },
		"a state without way":   func(m *bidding.Model) { m.P[1], m.P[0] = 0, 1 },
		"a sum that is rounded": func(m *bidding.Model) { m.P[0] += 0.0009 },
	} {
		m := walk(3, 0)
		m.P[0], m.P[1] = 0.5, 0.5
		change(&m)
		if _, err := bidding.Build(context.Background(), m, 2, 4); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := bidding.Model{OnDemandUSD: 1, USD: []float32{0.5}, P: []float32{1}}
	for _, c := range []struct {
		work, left int
		usd        float64
	}{{0, 0, 0}, {0, 3, 0}, {3, 3, 3}, {3, 4, 1.5}, {1 << 14, 1 << 14, 1 << 14}} {
		table, err := bidding.BuildRun(context.Background(), m, c.work, c.left)
		if err != nil {
			t.Fatal(err)
		}
		if usd := table.Cost(float64(c.work), float64(c.left), 0, bidding.OnNothing); math.Abs(usd-c.usd) > 1e-5 {
			t.Errorf("%d steps of work in %d cost %v, not %v", c.work, c.left, usd, c.usd)
		}
	}
}

// The interpolation is between steps of the same slack. With less than a step of slack, and a start if nothing is
// held, all of the work runs on demand.
func TestCostInterpolatesBetweenSteps(t *testing.T) {
	m := walk(4, 0.5)
	m.OnDemandUSD = 0.6
	table, err := bidding.Build(context.Background(), m, 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	cost := func(work, slack float64) float64 { return table.Cost(work, work+slack, 1, bidding.OnSpot) }
	for _, c := range []struct{ got, want float64 }{
		{cost(4.5, 3), (cost(4, 3) + cost(5, 3)) / 2},
		{cost(4, 3.5), (cost(4, 3) + cost(4, 4)) / 2},
		{cost(4.25, 3.5), 0.375*cost(4, 3) + 0.125*cost(5, 3) + 0.375*cost(4, 4) + 0.125*cost(5, 4)},
		{cost(0.5, 3), cost(1, 3) / 2},
		{table.Cost(4, 4.5, 1, bidding.OnDemand), 2.4},
		{table.Cost(4, 4.5, 1, bidding.OnNothing), 2.7},
		{table.Cost(4, 5.25, 1, bidding.OnNothing), 2.7},
		{table.Cost(4, 5.25, 1, bidding.OnSpot), 2.7},
		{table.Cost(0, 5, 1, bidding.OnSpot), 0},
		{table.Cost(-1, 5, 1, bidding.OnSpot), 0},
	} {
		if math.Abs(c.got-c.want) > 1e-5 {
			t.Errorf("%v, not %v", c.got, c.want)
		}
	}
	if usd := table.Cost(4, 6, 1, bidding.OnDemand); usd >= 2.4 {
		t.Errorf("with two steps to spare 4 steps cost %v, all on demand 2.4", usd)
	}
}

// This holds however much time there is.
func TestExpensiveSpotRunsOnDemand(t *testing.T) {
	for _, restart := range []float64{0, 1} {
		m := bidding.Model{OnDemandUSD: 2, Restart: restart, USD: []float32{5}, P: []float32{1}}
		table, err := bidding.Build(context.Background(), m, 4, 9)
		if err != nil {
			t.Fatal(err)
		}
		for left := 4 + restart; left <= 9; left++ {
			if usd, want := table.Cost(4, left, 0, bidding.OnNothing), 2*(4+restart); math.Abs(usd-want) > 1e-5 {
				t.Errorf("with a start of %v steps 4 in %v cost %v, not %v", restart, left, usd, want)
			}
		}
	}
}
