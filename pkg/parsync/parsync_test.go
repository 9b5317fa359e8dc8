package parsync_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

func TestRotationRefreshesDistinctPartitions(t *testing.T) {
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
					t.Fatalf("the partition refreshed in this turn is %d turns old", age)
				}
				if turn > start {
					if age := r.Age(s, r.Partition(s, turn-1), turn); age != 1%p {
						t.Fatalf("the partition refreshed in the last turn is %d turns old", age)
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

func TestNewRotationRejectsTooFewPartitions(t *testing.T) {
	for _, c := range [][2]int{{2, 2}, {20, 10}, {0, 1}, {1, 0}} {
		if _, err := parsync.NewRotation(c[0], c[1]); !errors.Is(err, parsync.ErrInvalid) {
			t.Errorf("%d over %d: %v", c[0], c[1], err)
		}
	}
	if _, err := parsync.NewRotation(1, 1); err != nil {
		t.Error(err)
	}
}

// A view must have the same slots as a plain list to which the same policy is applied.
func TestViewTakeFollowsPolicy(t *testing.T) {
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
					t.Fatalf("%s took %d (%v) instead of %d (%v)", prefer, got, at, s, other)
				}
			}
			delete(truth, got)
		}
		for range truth {
			if _, ok := v.Take(parsync.LatencyFirst, first); !ok {
				t.Fatalf("the view has fewer slots than the %d that are free", len(truth))
			}
		}
		if slot, ok := v.Take(parsync.LatencyFirst, first); ok {
			t.Fatalf("the view has slot %d in addition to the %d that are free", slot, len(truth))
		}
	})
}

func TestViewSampleTakesBestCandidate(t *testing.T) {
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
		t.Errorf("the remaining slots are %v", rest)
	}
}

func TestAdaptiveSwitchesAtLimit(t *testing.T) {
	for waited, want := range map[time.Duration]parsync.Policy{
		0: parsync.QualityFirst, parsync.DefaultSwitch - 1: parsync.QualityFirst, parsync.DefaultSwitch: parsync.LatencyFirst,
	} {
		if got := parsync.Adaptive.Prefer(waited, 0); got != want {
			t.Errorf("after %v: %s, want %s", waited, got, want)
		}
	}
	if parsync.LatencyFirst.Prefer(0, 0) != parsync.LatencyFirst || parsync.QualityFirst.Prefer(time.Hour, 0) != parsync.QualityFirst {
		t.Error("the other policies change too")
	}
	if _, err := parsync.ParsePolicy("best"); !errors.Is(err, parsync.ErrInvalid) {
		t.Error(err)
	}
}

func first(int) int { return 0 }
