package catalog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestExplainStories runs queries that no offer of the embedded catalogue matches, and prints the explanation. The
// arguments of find are fields of Query: gpu=V100:3 vcpu=8+ clouds=(aws,gcp) …
func TestExplainStories(t *testing.T) {
	c := snapshot(t)
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			q := parseQuery(t, d)
			found, err := c.Find(q)
			if err == nil {
				return fmt.Sprintf("%d matches, the cheapest %s\n", len(found), found[0].ID())
			}
			out := strings.ReplaceAll(err.Error(), "; ", ";\n  ") + "\n"
			var none *NoOfferError
			if errors.As(err, &none) {
				for _, r := range none.Relaxations {
					out += fmt.Sprintf("%s: %d, closest %s\n", r.Filter, r.Matches, r.Closest.ID())
				}
			}
			return out
		})
	})
}

func parseQuery(t *testing.T, d *datadriven.TestData) Query {
	var q Query
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "gpu":
			name, count, _ := strings.Cut(value, ":")
			q.Accelerator = name
			q.AcceleratorCount, _ = strconv.ParseFloat(count, 64)
		case "vcpu":
			q.VCPU = parseRange(t, value)
		case "memory":
			q.MemoryGiB = parseRange(t, value)
		case "clouds":
			q.Clouds = arg.Vals
		case "regions":
			q.Regions = arg.Vals
		case "zones":
			q.Zones = arg.Vals
		case "type":
			q.InstanceType = value
		case "arch":
			q.Arch = Arch(value)
		case "market":
			if err := q.Market.UnmarshalText([]byte(value)); err != nil {
				t.Fatal(err)
			}
		case "service":
			q.Service = Service(value)
		case "interruption":
			if err := q.MaxInterruption.UnmarshalText([]byte(value)); err != nil {
				t.Fatal(err)
			}
		case "carbon":
			q.MaxCarbonGPerKWh, _ = strconv.ParseFloat(value, 64)
		case "without":
			q.Keep = func(m *Match) bool { return m.Cloud != value }
		default:
			t.Fatalf("unknown argument %s", arg.Key)
		}
	}
	return q
}

func parseRange(t *testing.T, s string) Range {
	number, atLeast := strings.CutSuffix(s, "+")
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatal(err)
	}
	if atLeast {
		return AtLeast(x)
	}
	return Exactly(x)
}

func TestExplainReturnsNilIfOfferExists(t *testing.T) {
	if err := snapshot(t).Explain(Query{Accelerator: "V100"}); err != nil {
		t.Error(err)
	}
}
