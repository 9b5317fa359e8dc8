package parsync_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

func TestNoTwoSchedulersRefreshTheSamePartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "schedulers")
		p := n + rapid.IntRange(1, 40).Draw(t, "more")
		r, err := parsync.NewRotation(n, p)
		if err != nil {
			t.Fatal(err)
		}
		start := rapid.Uint64Range(0, 1<<40).Draw(t, "start")
		refreshed := make([]map[int]bool, n)
		for turn := start; turn < start+uint64(p); turn++ {
			at := map[int]int{}
			for s := range n {
				part := r.Partition(s, turn)
				if other, taken := at[part]; taken {
					t.Fatalf("turn %d: schedulers %d and %d refresh partition %d", turn, other, s, part)
				}
				at[part] = s
				if refreshed[s] == nil {
					refreshed[s] = map[int]bool{}
				}
				refreshed[s][part] = true
				if age := r.Age(s, part, turn); age != 0 {
					t.Fatalf("what is refreshed now is %d turns old", age)
				}
				if turn > start {
					if age := r.Age(s, r.Partition(s, turn-1), turn); age != 1%p {
						t.Fatalf("what was refreshed in the last turn is %d turns old", age)
					}
				}
			}
		}
		for s := range n {
			if len(refreshed[s]) != p {
				t.Fatalf("in %d turns scheduler %d refreshed %d partitions", p, s, len(refreshed[s]))
			}
		}
	})
}

func TestARotationNeedsMorePartitionsThanSchedulers(t *testing.T) {
	for _, c := range [][2]int{{2, 2}, {20, 10}, {0, 1}, {1, 0}} {
		if _, err := parsync.NewRotation(c[0], c[1]); !errors.Is(err, parsync.ErrInvalid) {
			t.Errorf("%d over %d: %v", c[0], c[1], err)
		}
	}
	if _, err := parsync.NewRotation(1, 1); err != nil {
		t.Error(err)
	}
}

// TestAViewPrefersAsItsPolicySays compares a view with a plain list of what it should hold.
func TestAViewPrefersAsItsPolicySays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, grades := rapid.IntRange(1, 130).Draw(t, "partitions"), rapid.IntRange(1, 4).Draw(t, "grades")
		type place struct{ partition, grade int }
		v, truth := parsync.NewView(partitions, grades), map[int32]place{}
		refreshed := make([]int, partitions)
		next, slots := 0, int32(0)
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "refresh") {
				free := make([][]int32, grades)
				for s, at := range truth {
					if at.partition == next {
						delete(truth, s)
					}
				}
				for g := range free {
					for range rapid.IntRange(0, 3).Draw(t, "free") {
						free[g] = append(free[g], slots)
						truth[slots] = place{next, g}
						slots++
					}
				}
				v.Refresh(next, free)
				refreshed[next] = step + 1
				next = (next + 1) % partitions
				continue
			}
			prefer := rapid.SampledFrom([]parsync.Policy{parsync.LatencyFirst, parsync.QualityFirst}).Draw(t, "prefer")
			got, ok := v.Take(prefer, func(n int) int { return n - 1 })
			if ok != (len(truth) > 0) {
				t.Fatalf("took %v of %d", ok, len(truth))
			}
			if !ok {
				continue
			}
			at, known := truth[got]
			if !known {
				t.Fatalf("took slot %d, which is not free", got)
			}
			for s, other := range truth {
				fresher := refreshed[other.partition] - refreshed[at.partition]
				better := at.grade - other.grade
				first, second := fresher, better
				if prefer == parsync.QualityFirst {
					first, second = better, fresher
				}
				if first > 0 || first == 0 && second > 0 {
					t.Fatalf("%s took %d (%v) though %d (%v) is to be preferred", prefer, got, at, s, other)
				}
			}
			delete(truth, got)
		}
		if v.Len() != len(truth) {
			t.Fatalf("the view has %d slots, %d are free", v.Len(), len(truth))
		}
	})
}

func TestASampleIsTheBestOfItsCandidates(t *testing.T) {
	v := parsync.NewView(2, 2)
	v.Refresh(0, [][]int32{{1}, {2, 3}})
	v.Refresh(1, [][]int32{{}, {4}})
	draws := []int{3, 0} // slot 4, then slot 1
	got, ok := v.Sample(2, func(int) int { d := draws[0]; draws = draws[1:]; return d })
	if !ok || got != 1 {
		t.Errorf("took %d", got)
	}
	var rest []int32
	for {
		s, ok := v.Sample(1, func(int) int { return 0 })
		if !ok {
			break
		}
		rest = append(rest, s)
	}
	slices.Sort(rest)
	if !slices.Equal(rest, []int32{2, 3, 4}) {
		t.Errorf("left were %v", rest)
	}
}

func TestAdaptiveChangesAtItsLimit(t *testing.T) {
	for waited, want := range map[time.Duration]parsync.Policy{
		0: parsync.QualityFirst, parsync.DefaultSwitch - 1: parsync.QualityFirst, parsync.DefaultSwitch: parsync.LatencyFirst,
	} {
		if got := parsync.Adaptive.Prefer(waited, 0); got != want {
			t.Errorf("after %v: %s, want %s", waited, got, want)
		}
	}
	if parsync.LatencyFirst.Prefer(0, 0) != parsync.LatencyFirst || parsync.QualityFirst.Prefer(time.Hour, 0) != parsync.QualityFirst {
		t.Error("the others change")
	}
	if _, err := parsync.ParsePolicy("best"); !errors.Is(err, parsync.ErrInvalid) {
		t.Error(err)
	}
}

// TestTheModelExpectsWhatHappens plays the model's own setting: schedulers that take slots without seeing each other.
func TestTheModelExpectsWhatHappens(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		schedulers, slots, each, candidates int
		variance                            float64
	}{
		{20, 10_000, 300, 1, 0}, {5, 1000, 200, 1, 0}, {20, 10_000, 200, 0, 0.04}, {20, 20_000, 200, 2, 0.04}, {2, 100, 100, 1, 0},
	} {
		m := parsync.Model{
			Schedulers: c.schedulers, FreeSlots: float64(c.slots), Rate: float64(c.each * c.schedulers), Gap: time.Second,
			ScoreVariance: c.variance, Candidates: c.candidates,
		}
		var free [][]int32
		next := int32(0)
		for _, g := range parsync.Grades(c.variance) {
			var list []int32
			for range int(math.Round(g.Share * float64(c.slots))) {
				list = append(list, next)
				next++
			}
			free = append(free, list)
		}
		conflicts, rounds := 0, 20
		for range rounds {
			taken := map[int32]bool{}
			for range c.schedulers {
				v := parsync.NewView(1, len(free))
				v.Refresh(0, free)
				for range c.each {
					var slot int32
					if c.candidates > 0 {
						slot, _ = v.Sample(c.candidates, random.IntN)
					} else {
						slot, _ = v.Take(parsync.QualityFirst, random.IntN)
					}
					if taken[slot] {
						conflicts++
					}
					taken[slot] = true
				}
			}
		}
		got, want := float64(conflicts)/float64(rounds), m.Conflicts()
		if math.Abs(got-want) > 0.03*want {
			t.Errorf("%+v: %.1f conflicts, expected %.1f", c, got, want)
		}
	}
}

// TestConflictsFollowTheFactorsOfThePaper: more load, a longer gap and a higher variance make more, more slots fewer (ATC '21, figures a to c).
func TestConflictsFollowTheFactorsOfThePaper(t *testing.T) {
	base := parsync.Model{Schedulers: 20, FreeSlots: 20_000, Rate: 20_000, Gap: 250 * time.Millisecond, ScoreVariance: 0.01, Candidates: 2}
	c := base.Conflicts()
	for name, change := range map[string]func(*parsync.Model){
		"load":     func(m *parsync.Model) { m.Rate *= 1.5 },
		"gap":      func(m *parsync.Model) { m.Gap *= 2 },
		"variance": func(m *parsync.Model) { m.ScoreVariance = 0.04; m.Candidates = 0 },
		"slots":    func(m *parsync.Model) { m.FreeSlots /= 2 },
	} {
		m := base
		change(&m)
		if m.Conflicts() <= c {
			t.Errorf("%s: %.0f conflicts, before %.0f", name, m.Conflicts(), c)
		}
	}
	alone := base
	alone.Schedulers = 1
	if got := alone.Conflicts(); math.Abs(got) > 1e-6 {
		t.Errorf("one scheduler has %v conflicts with itself", got)
	}
}

func TestGradesAreAllSlots(t *testing.T) {
	for _, variance := range []float64{0, 1e-6, 0.01, 0.04, 1} {
		share, mean := 0.0, 0.0
		for _, g := range parsync.Grades(variance) {
			share += g.Share
			mean += g.Share * g.Score
		}
		if math.Abs(share-1) > 1e-9 || math.Abs(mean-1) > 1e-3 {
			t.Errorf("variance %v: shares of %v, a mean of %v", variance, share, mean)
		}
	}
}

func TestEntitlementsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "groups")
		quotas, usage := make([]parsync.Quota, n), make([]parsync.Usage, n)
		for i := range n {
			least := float64(rapid.IntRange(0, 20).Draw(t, "min"))
			quotas[i] = parsync.Quota{Group: string(rune('a' + i)), Min: least, Max: least + float64(rapid.IntRange(0, 30).Draw(t, "more"))}
			usage[i] = parsync.Usage{Used: float64(rapid.IntRange(0, 20).Draw(t, "used")), Waiting: float64(rapid.IntRange(0, 40).Draw(t, "waiting"))}
		}
		capacity := float64(rapid.IntRange(0, 120).Draw(t, "capacity"))
		got := parsync.Entitled(capacity, quotas, usage)
		sum, wants, minima := 0.0, 0.0, 0.0
		for i, q := range quotas {
			want := min(usage[i].Used+usage[i].Waiting, q.Max)
			sum, wants, minima = sum+got[i], wants+want, minima+min(q.Min, want)
			if got[i] > want+1e-9 || got[i] < 0 {
				t.Fatalf("%s may use %v and wants %v", q.Group, got[i], want)
			}
		}
		if sum > capacity+1e-9 || sum < min(capacity, wants)-1e-9 {
			t.Fatalf("%v of %v are given out, %v are wanted", sum, capacity, wants)
		}
		for i, q := range quotas {
			want := min(usage[i].Used+usage[i].Waiting, q.Max)
			if minima <= capacity && got[i] < min(q.Min, want)-1e-9 {
				t.Fatalf("%s may use %v, less than its minimum %v", q.Group, got[i], q.Min)
			}
			for j := range quotas { // who wants more got at least as much above its minimum as anyone
				if minima <= capacity && got[i] < want-1e-9 && got[j]-min(quotas[j].Min, want) > got[i]-min(q.Min, want)+1e-6+quotas[j].Min {
					t.Fatalf("%s got %v and %s %v", q.Group, got[i], quotas[j].Group, got[j])
				}
			}
		}
	})
}

func TestAQuotaThatCannotBeIsRefused(t *testing.T) {
	for _, q := range []parsync.Quota{{}, {Group: "a", Min: -1}, {Group: "a", Min: 2, Max: 1}, {Group: "a", Min: math.NaN()}} {
		if err := q.Validate(); !errors.Is(err, parsync.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if err := (parsync.Quota{Group: "a", Min: 1, Max: 2}).Validate(); err != nil {
		t.Error(err)
	}
}
