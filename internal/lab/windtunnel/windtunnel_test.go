package windtunnel_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// setting returns the paper's setting at a tenth of its size.
func setting(policy parsync.Policy) windtunnel.Config {
	return windtunnel.Config{
		Schedulers: 20, Partitions: 40, Slots: 20_000, Rate: 4000, Load: [][]float64{{0.5, 0.8, 0.95}}, Phase: 15 * time.Second,
		Policy: policy, ScoreVariance: -1, Candidates: windtunnel.DefaultCandidates, Seed: 1,
	}
}

func run(t *testing.T, c windtunnel.Config) *windtunnel.Result {
	t.Helper()
	r, err := windtunnel.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPartitionsBeatFullStateSync(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	whole := func(policy parsync.Policy) windtunnel.Config {
		c := setting(policy)
		c.Slots, c.Rate, c.Phase = 200_000, 40_000, 30*time.Second
		return c
	}
	full, ours := run(t, whole(parsync.StateSync)), run(t, whole(parsync.Adaptive))
	for i := range full.Phases {
		if ours.Phases[i].Quality < 0.99*full.Phases[i].Quality {
			t.Errorf("phase %d: quality %.3f, with full sync %.3f", i, ours.Phases[i].Quality, full.Phases[i].Quality)
		}
	}
	last := len(full.Phases) - 1
	if a, b := ours.Phases[last].DelaySeconds, full.Phases[last].DelaySeconds; a > b/5 {
		t.Errorf("at 95%% load the delay is %.3f s, with full sync %.3f s", a, b)
	}
}

func TestConflictsMatchModel(t *testing.T) {
	for i, p := range run(t, setting(parsync.StateSync)).Phases {
		if d := p.Expected / float64(p.Conflicts); d < 0.9 || d > 1.1 {
			t.Errorf("phase %d: %d conflicts, expected %.0f", i, p.Conflicts, p.Expected)
		}
	}
}

// TestThreePhases is the paper's test of two classes of schedulers. First, one class is overloaded (ATC '21, §4).
func TestThreePhases(t *testing.T) {
	c := setting(parsync.Adaptive)
	c.Load = [][]float64{{2. / 3, 1, 1}, {2. / 3, 2. / 3, 1}}
	adaptive := run(t, c)
	for phase := 1; phase < 3; phase++ {
		if d := adaptive.Classes[0][phase].DelaySeconds; d > 2*parsync.DefaultSwitch.Seconds() {
			t.Errorf("phase %d: the overloaded schedulers wait %.2f s", phase, d)
		}
	}
	a, b := adaptive.Classes[0][1], adaptive.Classes[1][1]
	if b.DelaySeconds > 0.1 || b.Quality <= a.Quality {
		t.Errorf("the other schedulers wait %.2f s for a quality of %.3f, the overloaded ones get %.3f", b.DelaySeconds, b.Quality, a.Quality)
	}
}

// A static partition and a lock avoid conflicts, but cost time (ATC '21, §4). With a partition, tasks wait for ever
// if their scheduler needs more slots than its own, although others have free slots. With a lock, tries are lost.
func TestExclusiveSlotsCostTime(t *testing.T) {
	uneven := func(policy parsync.Policy) *windtunnel.Result {
		c := setting(policy)
		c.Load, c.Hold = [][]float64{{1, 1}, {0.3, 0.3}}, 7*time.Second
		return run(t, c)
	}
	static, latency := uneven(windtunnel.Static), uneven(parsync.LatencyFirst)
	if a, b := static.Classes[0][1], latency.Classes[0][1]; a.Conflicts != 0 || a.DelaySeconds < 5*b.DelaySeconds {
		t.Errorf("static: %d conflicts, the loaded schedulers wait %.3f s, with shared slots %.3f s", a.Conflicts,
			a.DelaySeconds, b.DelaySeconds)
	}
	if a, b := static.Phases[1].Used, latency.Phases[1].Used; a > 0.9*b {
		t.Errorf("static uses %.2f of the slots, with shared slots %.2f", a, b)
	}
	lock, free := run(t, setting(windtunnel.Lock)), run(t, setting(parsync.LatencyFirst))
	if p, q := lock.Phases[2], free.Phases[2]; lock.Total.Conflicts != 0 || p.DelaySeconds < 10*q.DelaySeconds {
		t.Errorf("lock: %d conflicts, tasks wait %.3f s at 95 %%, without locks %.3f s", lock.Total.Conflicts,
			p.DelaySeconds, q.DelaySeconds)
	}
}

func TestArrivedTasksArePlacedOrWaiting(t *testing.T) {
	for _, policy := range windtunnel.Policies() {
		r := run(t, setting(policy))
		placed := 0
		for _, p := range r.Phases {
			placed += p.Tasks
			if p.Quality > p.Ideal*1.1 || p.Used <= 0 || p.Used > 1 {
				t.Errorf("%s: %+v", policy, p)
			}
		}
		arrived := 4000. * 15 * (0.5 + 0.8 + 0.95)
		if got := float64(placed + r.Total.Waiting); math.Abs(got-arrived) > 6*math.Sqrt(arrived) {
			t.Errorf("%s: %.0f of about %.0f tasks are accounted for", policy, got, arrived)
		}
	}
}

func TestSameSeedGivesSameRun(t *testing.T) {
	c := setting(parsync.Adaptive)
	c.Phase = 5 * time.Second
	if a, b := run(t, c), run(t, c); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	d := c
	d.Seed = 2
	if reflect.DeepEqual(run(t, c).Phases, run(t, d).Phases) {
		t.Error("the seed makes no difference")
	}
}

func TestRunRejectsInvalidConfig(t *testing.T) {
	for field, change := range map[string]func(*windtunnel.Config){
		"schedulers": func(c *windtunnel.Config) { c.Schedulers = 0 }, "partitions": func(c *windtunnel.Config) { c.Partitions = 20 },
		"slots": func(c *windtunnel.Config) { c.Slots = 3 }, "rate": func(c *windtunnel.Config) { c.Rate = math.NaN() },
		"phase": func(c *windtunnel.Config) { c.Phase = 0 }, "gap": func(c *windtunnel.Config) { c.Gap = -1 },
		"load": func(c *windtunnel.Config) { c.Load = [][]float64{{0.5, 3}} }, "policy": func(c *windtunnel.Config) { c.Policy = "x" },
		"classes": func(c *windtunnel.Config) { c.Load = [][]float64{{0.5}, {0.5, 0.6}} },
	} {
		c := setting(parsync.Adaptive)
		change(&c)
		_, err := windtunnel.Run(t.Context(), c)
		if !errors.Is(err, parsync.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := windtunnel.Run(ctx, setting(parsync.Adaptive)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkTasks(b *testing.B) {
	for _, policy := range windtunnel.Policies() {
		b.Run(string(policy), func(b *testing.B) {
			for b.Loop() {
				c := setting(policy)
				c.Phase = 10 * time.Second
				r, err := windtunnel.Run(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Total.Tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			}
		})
	}
}
