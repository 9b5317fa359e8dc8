package cli_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestFlagParsesAmounts(t *testing.T) {
	for in, want := range map[string]string{
		"96": "vcpus=96", "vcpus=96,memory=512": "memoryGiB=512, vcpus=96", "A100=8,usd-per-hour=20.5": "A100=8, usdPerHour=20.5", "usd-per-month=$300,usd-per-hour=2 USD": "usdPerHour=2, usdPerMonth=300",
		"usd-per-month=500": "usdPerMonth=500",
		" cpu = 4 ":         "vcpus=4", "memoryGiB=0": "memoryGiB=0",
	} {
		var f cli.Flag
		if err := f.Set(in); err != nil || f.String() != want {
			t.Errorf("%q is read as %q, %v", in, &f, err)
		}
	}
	for _, bad := range []string{
		"", "x", "memory", "memory=", "memory=-1", "=4", "A100=Inf", "A100=NaN", "vcpus=1,,", "vcpus=1e99",
	} {
		var f cli.Flag
		if err := f.Set(bad); err == nil {
			t.Errorf("%q is read as %q", bad, &f)
		}
	}
}

func TestFlagKeepsOmittedAmounts(t *testing.T) {
	var f cli.Flag
	if err := f.Set("A100=0,memory=64"); err != nil {
		t.Fatal(err)
	}
	old := apitypes.Amounts{"A100": 8, "H100": 2}
	if got := cli.Format(f.Over(old)); got != "A100=0, H100=2, memoryGiB=64" || old["A100"] != 8 {
		t.Errorf("it is %q, and was %v", got, old)
	}
}

func TestOfShowsMonthlyBudget(t *testing.T) {
	q := apitypes.Queue{Max: apitypes.Amounts{apitypes.USDPerMonth: 500},
		Month: apitypes.Month{Of: "2026-11", SpentUSD: 120, ReservedUSD: 30, BelowUSD: 50, AsideBelowUSD: 15}}
	if got := cli.Describe(&q); got != "usdPerMonth 200.00 of 500.00 in 2026-11, 45.00 of it reserved" {
		t.Errorf("it is told as %q", got)
	}
}

func TestTableIncludesChildQueues(t *testing.T) {
	table := cli.Table(
		apitypes.Queue{Name: "lab", MaxVCPU: 8, Running: 1, VCPU: 2, Max: apitypes.Amounts{"A100": 8},
			Use: apitypes.Amounts{"A100": 1}},
		apitypes.Queue{Name: "vision", Parent: "lab", Running: 1, VCPU: 1},
		apitypes.Queue{Name: "night", Parent: "vision", Running: 2, VCPU: 4, Use: apitypes.Amounts{"A100": 3}},
		apitypes.Queue{Name: "alone", Parent: "elsewhere", Running: 1, VCPU: 1},
	)
	want := [][]string{{"lab", "4", "7"}, {"vision", "3", "5"}, {"night", "2", "4"}, {"alone", "1", "1"}}
	for i, row := range table.Rows {
		if got := []string{row[0].Text, row[1].Text, row[3].Text}; !slices.Equal(got, want[i]) {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
	if row := table.Rows[0]; row[len(row)-1].Text != "A100 4 of 8" {
		t.Errorf("lab has %q", row)
	}
}
