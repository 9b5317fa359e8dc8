package record_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestMonthKeepsReservedAndNeverGoesBack(t *testing.T) {
	end := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	m := apitypes.Month{SpentUSD: 3}.At(end)
	m.SpentUSD, m.ReservedUSD = 5, 2
	if same := m.At(end.Add(-time.Hour)); same != m || m.Of != "2026-12" {
		t.Errorf("%+v an hour earlier is %+v", m, same)
	}
	// The month changes in UTC, not in another time zone.
	if same := m.At(end.In(time.FixedZone("east", 3600))); same != m {
		t.Errorf("in another zone it is %+v", same)
	}
	next := m.At(end.Add(time.Second))
	if next != (apitypes.Month{Of: "2027-01", ReservedUSD: 2}) || !m.Ends().Equal(end.Add(time.Second)) {
		t.Errorf("the next month begins at %v as %+v", m.Ends(), next)
	}
	if again := next.At(end); again != next {
		t.Errorf("a decision from before the turn makes it %+v", again)
	}
}

func TestMonthlyBudgetIsOnlyAMax(t *testing.T) {
	month := apitypes.Amounts{apitypes.USDPerMonth: 5}
	for _, s := range []record.QueueSettings{{Deserved: month}, {Guaranteed: month},
		{Max: apitypes.Amounts{apitypes.USDPerMonth: -1}}} {
		if err := record.CheckSettings(s); !errors.Is(err, record.ErrQueue) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	q := apitypes.Queue{Max: apitypes.Amounts{apitypes.USDPerMonth: 5, apitypes.MemoryGiB: 8}}
	if err := record.CheckSettings(record.SettingsOf(q)); err != nil {
		t.Error(err)
	}
	if most := q.Limits(); len(most) != 1 || len(record.Bounded([]*apitypes.Queue{&q})) != 1 || len(q.Max) != 2 {
		t.Errorf("holdings are limited to %v", most)
	}
}

// TestPurseCountsQueuesBelow compares with a sum over all attempts, each paid from the budgets of its queue and all
// above it, in random trees and across month changes.
func TestPurseCountsQueuesBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "queues")
		tree := make([]*apitypes.Queue, n)
		above := make([]int, n)
		for i := range tree {
			tree[i] = &apitypes.Queue{Name: fmt.Sprint("q", i), Max: apitypes.Amounts{apitypes.USDPerMonth: float64(i % 3)}}
			if above[i] = -1; i > 0 {
				above[i] = rapid.IntRange(-1, i-1).Draw(t, "parent")
			}
			if above[i] >= 0 {
				tree[i].Parent, tree[above[i]].Inner = tree[above[i]].Name, true
			}
		}
		now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
		aside, spent := make([]float64, n), make([]float64, n)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			later := now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "hours")) * time.Hour)
			if later.Month() != now.Month() {
				spent = make([]float64, n)
			}
			now = later
			i, usd := rapid.IntRange(0, n-1).Draw(t, "queue"), float64(rapid.IntRange(1, 100).Draw(t, "usd"))
			if tree[i].Running == 0 || rapid.Bool().Draw(t, "admit") {
				tree[i].Running++
				record.ReserveMonth(tree[i], usd, now)
				aside[i] += usd
			} else {
				tree[i].Running--
				back := min(usd, aside[i])
				if tree[i].Running == 0 {
					back = aside[i]
				}
				record.SettleMonth(tree[i], usd/2, back, now)
				aside[i] -= back
				spent[i] += usd / 2
			}
		}
		below := func(i, of int) bool {
			for ; i >= 0; i = above[i] {
				if i == of {
					return true
				}
			}
			return false
		}
		shown := make([]apitypes.Queue, n)
		for i, q := range tree {
			shown[i] = *q
		}
		record.Months(shown, now)
		for of := range shown {
			var a float64
			for x := range tree {
				if below(x, of) {
					a += aside[x]
				}
			}
			if m := shown[of].Month; math.Abs(m.ReservedUSD+m.AsideBelowUSD-a) > 1e-9 {
				t.Fatalf("queue %s, %v reserved: %+v", shown[of].Name, a, m)
			}
		}
		for i := range tree {
			purses := record.Purses(tree, tree[i].Name, now)
			for of := i; of >= 0; of = above[of] {
				most := tree[of].Max[apitypes.USDPerMonth]
				if most == 0 {
					continue
				}
				var a, s float64
				for x := range tree {
					if below(x, of) {
						a, s = a+aside[x], s+spent[x]
					}
				}
				if len(purses) == 0 || purses[0].Queue != tree[of].Name || math.Abs(purses[0].AsideUSD-a) > 1e-9 ||
					math.Abs(purses[0].SpentUSD-s) > 1e-9 || math.Abs(purses[0].LeftUSD()-(most-a-s)) > 1e-9 {
					t.Fatalf("queue %s, %v spent and %v reserved: %+v", tree[of].Name, s, a, purses)
				}
				purses = purses[1:]
			}
			if len(purses) > 0 {
				t.Fatalf("%s is also paid from %+v", tree[i].Name, purses)
			}
		}
	})
}
