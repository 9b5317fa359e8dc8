package lab_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/lab"
)

// TestBacktestJSON checks the documented JSON: the policies by name with their figures, and the markets.
func TestBacktestJSON(t *testing.T) {
	for args, policies := range map[string][]string{
		"backtest bid --prices ../cli/testdata/prices --work 8h --deadline 12h": {
			"on-demand", "spot", "greedy", "aib", "uniform-progress", "bfrc", "markov", "clairvoyant",
		},
		"backtest availability --traces ../cli/testdata/traces --work 6h --deadline 8h --policy markov": {"on-demand", "markov", "clairvoyant"},
	} {
		r := run(strings.Fields(args + " -o json")...)
		var out struct {
			Policies map[string]struct {
				USD           float64 `json:"usd"`
				ToOnDemand    float64 `json:"toOnDemand"`
				ToClairvoyant float64 `json:"toClairvoyant"`
				Misses        *int    `json:"misses"`
				Interruptions *int    `json:"interruptions"`
			} `json:"policies"`
			Markets []struct {
				Name     string                     `json:"name"`
				Policies map[string]json.RawMessage `json:"policies"`
			} `json:"markets"`
		}
		if err := json.Unmarshal([]byte(r.out), &out); err != nil || r.code != command.ExitDone {
			t.Fatalf("%s: exit %d, %v\n%s%s", args, r.code, err, r.out, r.err)
		}
		for _, name := range policies {
			p, ok := out.Policies[name]
			if !ok || !(p.USD > 0) || !(p.ToOnDemand > 0) || p.ToClairvoyant < 1 || p.Misses == nil || *p.Misses != 0 || p.Interruptions == nil {
				t.Errorf("%s: %s is %+v", args, name, p)
			}
		}
		if len(out.Policies) != len(policies) || len(out.Markets) != 2 || out.Markets[0].Name == "" || len(out.Markets[0].Policies) != len(policies) {
			t.Errorf("%s: %d policies, markets %+v", args, len(out.Policies), out.Markets)
		}
	}
}

func TestBacktestRejectsFamilyWithoutPrices(t *testing.T) {
	for _, args := range []string{"backtest bid", "backtest workflow --dag ../../examples/fan-out.yaml"} {
		args := strings.Fields(args + " --prices ../cli/testdata/prices --types c7a")
		if r := run(args...); r.code != command.ExitBadInput || !strings.Contains(r.err, `family "c7a": one of m5`) {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
	if r := run(strings.Fields("backtest bid --prices ../cli/testdata/prices --types m5 --work 8h --deadline 12h")...); r.code != command.ExitDone {
		t.Errorf("a family with prices: exit %d, %s", r.code, r.err)
	}
}

func TestBacktestAndPriceSVG(t *testing.T) {
	for _, args := range []string{
		"backtest bid --prices ../cli/testdata/prices --work 8h --deadline 12h -o svg",
		"prices chart m5.large-east-1a --prices ../cli/testdata/prices -o svg",
	} {
		r := run(strings.Fields(args)...)
		if r.code != command.ExitDone || !strings.Contains(r.out, "<svg") || !strings.Contains(r.out, "</svg>") {
			t.Errorf("%s: exit %d, %s", args, r.code, r.err)
		}
	}
}

func TestChaos(t *testing.T) {
	r := run("chaos", "--seeds", "1:3", "--jobs", "1", "-o", "json")
	var got lab.ChaosResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("exit %d: %v: %s", r.code, err, r.err)
	}
	if got.Seeds != 2 || got.Steps == 0 || got.Jobs != 2 || (len(got.Violations) > 0) != (r.code == command.ExitFailed) {
		t.Errorf("exit %d: %+v", r.code, got)
	}
}
