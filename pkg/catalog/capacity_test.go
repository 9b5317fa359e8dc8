package catalog_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestAmountStringAndHolds(t *testing.T) {
	for _, c := range []struct {
		has, takes apitypes.Amount
		said       string
		holds      int
	}{
		{catalog.Machines(4), catalog.Machines(1), "4 machines", 4},
		{catalog.Machines(1), catalog.Machines(2), "1 machine", 0},
		{apitypes.Amount{MilliVCPU: 96_000, MiB: 384 << 10}, catalog.DemandOf(4, 32), "96 vCPUs and 384 GiB", 12},
		// the commitment does not include memory
		{apitypes.Amount{MilliVCPU: 96_000}, catalog.DemandOf(4, 32), "96 vCPUs", 0},
		{apitypes.Amount{MilliVCPU: 500, MiB: 768}, catalog.DemandOf(0.25, 0.25), "0.5 vCPUs and 0.75 GiB", 2},
		{apitypes.Amount{MiB: 15259}, catalog.DemandOf(1, 8), "14.9 GiB", 0},
		// although 0.1 + 0.1 + 0.1 > 0.3 in floating point
		{catalog.SupplyUSD(0.3), catalog.DemandUSD(0.1), "0.3 USD an hour", 3},
		{catalog.SupplyUSD(1.5), catalog.DemandUSD(0.0312345), "1.5 USD an hour", 48},
		{apitypes.Amount{CentiUnits: 1600}, apitypes.Amount{CentiUnits: 400}, "16 normalised units", 4},
		{apitypes.Amount{}, apitypes.Amount{}, "nothing", 0},
	} {
		if got := c.has.String(); got != c.said {
			t.Errorf("%+v is written as %q", c.has, got)
		}
		if got := c.has.Holds(c.takes); got != c.holds {
			t.Errorf("%s holds %s %d times", c.has, c.takes, got)
		}
	}
	if err := (apitypes.Amount{MiB: -1, Machines: 1}).Check(); err == nil {
		t.Error("a negative amount is valid")
	}
	if err := (apitypes.Amount{}).Check(); err == nil {
		t.Error("a zero amount is valid")
	}
	if got := catalog.DemandUSD(0.0312341); got.MicroUSD != 31_235 {
		t.Errorf("the demand is rounded to %d", got.MicroUSD)
	}
	if got := catalog.SupplyUSD(0.0312349); got.MicroUSD != 31_234 {
		t.Errorf("the supply is rounded to %d", got.MicroUSD)
	}
}

// Addition, subtraction and comparison of amounts must follow the laws of arithmetic.
func TestAmountArithmetic(t *testing.T) {
	amount := rapid.Custom(func(t *rapid.T) apitypes.Amount {
		n := rapid.Int64Range(0, 5)
		return apitypes.Amount{Machines: n.Draw(t, "machines"), MilliVCPU: n.Draw(t, "vcpu"), MiB: n.Draw(t, "mib"),
			MicroUSD: n.Draw(t, "usd"), CentiUnits: n.Draw(t, "units")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, n := amount.Draw(t, "a"), amount.Draw(t, "b"), rapid.IntRange(0, 4).Draw(t, "n")
		if a.Plus(b).Minus(b) != a || a.Plus(b) != b.Plus(a) {
			t.Errorf("%+v and %+v", a, b)
		}
		sum := apitypes.Amount{}
		for range n {
			sum = sum.Plus(a)
		}
		if sum != a.Times(n) {
			t.Errorf("%d times %+v is %+v", n, a, a.Times(n))
		}
		if a.Within(b) && a.Compare(b) > 0 || a.Within(b) && b.Within(a) && a != b || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%+v and %+v compare inconsistently", a, b)
		}
		if holds := b.Holds(a); !a.IsZero() && (!a.Times(holds).Within(b) || a.Times(holds+1).Within(b)) {
			t.Errorf("%+v holds %+v %d times", b, a, holds)
		}
	})
}
