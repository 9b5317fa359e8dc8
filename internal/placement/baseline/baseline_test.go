package baseline_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/placement/baseline"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

func medea(p *placement.Problem) placement.Assignment {
	return baseline.Medea(p, baseline.MedeaRule, baseline.MedeaMachine)
}

// All methods must keep capacities. All except Medea must keep rules. None considers priorities.
func TestConstraintsRespectedByBaselines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := placement.Setting{
			Machines: rapid.IntRange(1, 40).Draw(t, "machines"), Apps: rapid.IntRange(1, 30).Draw(t, "apps"),
			AntiAffinity: rapid.Float64Range(0, 1).Draw(t, "apart"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		s.Containers = s.Apps + rapid.IntRange(0, 100).Draw(t, "more")
		p, err := placement.Generate(s)
		if err != nil {
			t.Fatal(err)
		}
		for name, place := range map[string]func(*placement.Problem) placement.Assignment{
			"ffd": baseline.FirstFit, "bfd": baseline.BestFit, "dot": baseline.DotProduct, "firmament": baseline.Firmament, "medea": medea,
		} {
			r, err := placement.Verify(p, place(p))
			if err != nil {
				t.Fatal(name, err)
			}
			for _, v := range r.Violations {
				if v.Kind == placement.OverCapacity || name != "medea" {
					t.Fatalf("%s: %+v", name, v)
				}
			}
		}
	})
}

// The cases are those of the paper's figure 1. Medea breaks rules in them, and the network shows that this is not
// necessary.
func TestBaselinesOnFigure1(t *testing.T) {
	p, err := placement.Generate(placement.Setting{Machines: 300, Containers: 3000, Apps: 400, AntiAffinity: 0.7, Priority: 0.15, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	broken := func(a placement.Assignment) (placed, rules int) {
		r, err := placement.Verify(p, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Violations {
			if v.Kind == placement.Together {
				rules++
			}
		}
		return r.Placed, rules
	}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if placed, rules := broken(n.Solve().Assignment); placed != 3000 || rules > 0 {
		t.Errorf("the network places %d and breaks %d", placed, rules)
	}
	if placed, rules := broken(medea(p)); placed != 3000 || rules == 0 {
		t.Errorf("Medea places %d and breaks %d", placed, rules)
	}
	if placed, rules := broken(baseline.FirstFit(p)); placed != 3000 || rules > 0 {
		t.Errorf("first fit places %d and breaks %d", placed, rules)
	}
}
