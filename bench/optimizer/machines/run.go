package machines

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/processor"
	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// Options are the flags of the benchmark.
type Options struct {
	Data string // folder of the public data
	Only string // part of the names of workflows
	// Python is the interpreter with OR-Tools, and Scripts the folder of the peers' scripts. Without Python, the
	// comparison with CP-SAT is left out.
	Python, Scripts string
	Limit           time.Duration // for CP-SAT to solve one model
	Out             io.Writer
}

// Run prints the tables: each workflow without a deadline and with deadlines of 3 and 1.5 times the critical path
// (the longest path on the fastest machine, after a boot), and small models compared with CP-SAT.
func Run(ctx context.Context, o Options) error {
	offers, err := ReadOffers(o.Data, Filter{Burstable: true})
	if err != nil {
		return err
	}
	offers = offers.AtLeast(2, 4)
	workflows, err := ReadWorkflows(o.Data, o.Only)
	if err != nil {
		return err
	}
	fmt.Fprint(o.Out, "# Plans in which tasks share machines\n\nWritten by `make bench-optimizer-shared`. Times are processor "+
		"times of solving, on one thread.\n\n")
	fmt.Fprintf(o.Out, "%d offers in %d places. HEFT: the cheapest of %d types and %d numbers of machines. Ratios: ours to "+
		"HEFT, ours to its bound.\n", len(offers.Machines), len(offers.Names), baseTypesMost, len(counts))
	for _, factor := range []float64{0, 3, 1.5} {
		if err := table(ctx, &o, offers, workflows, factor); err != nil {
			return err
		}
	}
	return compareSmall(ctx, &o)
}

// AtLeast returns the offers with enough vCPUs and GiB.
func (o *Offers) AtLeast(cpus, memory float64) *Offers {
	some := &Offers{Places: o.Places}
	for _, m := range o.Machines {
		if m.CPUs >= cpus && m.MemoryGiB >= memory {
			some.Machines = append(some.Machines, m)
		}
	}
	return some
}

// Critical is the longest path of a workflow on the fastest machine, after the median boot of the fastest machines.
func (o *Offers) Critical(w *Workflow) float64 {
	fastest, boot := 0.0, 0.0
	for i := range o.Machines {
		if m := &o.Machines[i]; m.Speed > fastest {
			fastest, boot = m.Speed, m.BootHours
		}
	}
	return w.CriticalHours()/fastest + boot
}

func table(ctx context.Context, o *Options, offers *Offers, workflows []Workflow, factor float64) error {
	if factor == 0 {
		fmt.Fprint(o.Out, "\n## No deadline\n\n")
	} else {
		fmt.Fprintf(o.Out, "\n## Deadline: %g × the critical path\n\n", factor)
	}
	fmt.Fprint(o.Out, "| workflow | tasks | HEFT, USD | IC-PCP, USD | ours, USD | ours / HEFT | ours / bound | machines | time |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	logs, n, worst := 0.0, 0, 0.0
	for i := range workflows {
		w := &workflows[i]
		m := Model(w, offers, factor*offers.Critical(w))
		ratio, err := tableRow(ctx, o, w, m)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		if ratio > 0 {
			logs, n, worst = logs+math.Log(ratio), n+1, max(worst, ratio)
		}
	}
	fmt.Fprintf(o.Out, "\nOurs / HEFT: geometric mean %.3f, highest %.3f, of %d workflows.\n", math.Exp(logs/float64(n)),
		worst, n)
	return nil
}

// tableRow prints the row of a model and returns the ratio of our cost to HEFT's, or 0 if HEFT has no plan.
func tableRow(ctx context.Context, o *Options, w *Workflow, m *shared.Model) (float64, error) {
	types := baseTypes(m)
	base := Baseline(m)
	begin := processor.Time()
	s, err := shared.Solve(ctx, m, shared.Options{})
	if err != nil {
		return 0, err
	}
	took := processor.Time() - begin
	if s.Plan == nil {
		return 0, fmt.Errorf("%s: %s", s.Status, s.Message)
	}
	usd, _, err := judge.Check(m, s.Plan, 0)
	if err != nil {
		return 0, err
	}
	if math.Abs(usd-s.Plan.USD) > 1e-9*usd || s.Bound > usd {
		return 0, fmt.Errorf("reports %v USD and a bound of %v USD, but costs %v USD", s.Plan.USD, s.Bound, usd)
	}
	figures, ratio := [3]string{"none", "none", "-"}, 0.0
	if base != nil {
		if _, _, err := judge.Check(m, base, 1e-9); err != nil {
			return 0, fmt.Errorf("HEFT: %w", err)
		}
		ratio = usd / base.USD
		figures[0], figures[2] = fmt.Sprintf("%.5f", base.USD), fmt.Sprintf("%.3f", ratio)
		types = samePlace(m, types, m.Machines[base.Instances[0].Machine].Place)
	}
	if p := ICPCP(m, types); p != nil {
		if _, _, err := judge.Check(m, p, 1e-9); err != nil {
			return 0, fmt.Errorf("IC-PCP: %w", err)
		}
		figures[1] = fmt.Sprintf("%.5f", p.USD)
	}
	fmt.Fprintf(o.Out, "| %s | %d | %s | %s | %.5f | %s | %.3f | %d | %d ms |\n", w.Name, len(m.Tasks), figures[0],
		figures[1], usd, figures[2], usd/s.Bound, len(s.Plan.Instances), took.Milliseconds())
	return ratio, nil
}

// samePlace returns the types in a place; IC-PCP knows no egress.
func samePlace(m *shared.Model, types []int, place int) []int {
	var some []int
	for _, k := range types {
		if m.Machines[k].Place == place {
			some = append(some, k)
		}
	}
	return some
}
