package lab

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/sim"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// billOptions are the flags of bill.
type billOptions struct {
	seeds     seedsFlag
	market    command.Choice
	preempted command.Span
	within    command.Span
	boots     string
	output    *command.Choice
}

func (a app) billCommand() *cobra.Command {
	o := &billOptions{seeds: seedsFlag{to: 10}, within: command.Span{Value: 7 * 24 * time.Hour},
		market: command.NewChoice(string(dag.MarketAuto), string(dag.MarketSpot), string(dag.MarketOnDemand))}
	c := &cobra.Command{
		Use:   "bill FILE",
		Short: "Compare the plan of a job with its bill in simulated clouds",
		Long: "Compares the planned cost of a job with the cost of its machines in simulated worlds, one world for\n" +
			"each seed. In each world, the broker's planner plans the job and the broker's functions run it;\n" +
			"nothing is bought. Boot times are drawn from measured ones, and tasks run exactly as long as the job\n" +
			"file estimates. Nothing fails, except that spot machines are preempted with --preempted.",
		Example: "  tradewind-lab bill Montage_1000.xml.gz --market on-demand\n" +
			"  tradewind-lab bill Montage_1000.xml.gz --market spot --preempted 4h --seeds 0:20 -o json",
		Args: command.Args(1, 1),
	}
	f := c.Flags()
	f.Var(&o.seeds, "seeds", "seeds A (included) to B (excluded), or a single one")
	f.Var(&o.market, "market", "market of all machines")
	command.CompleteChoice(c, "market", &o.market)
	f.Var(&o.preempted, "preempted", "mean time until a spot machine is preempted (default: never)")
	f.Var(&o.within, "within", "virtual time within which the job must succeed")
	f.StringVar(&o.boots, "boot-times", "", "file of measured boot times to draw from")
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.bill(ctx, args[0], o)
	}
	return c
}

// BillResult is the output of `bill -o json`.
type BillResult struct {
	Job    string         `json:"job"`
	Tasks  int            `json:"tasks"`
	Market dag.Market     `json:"market"`
	Runs   []sim.Measured `json:"runs"`
	// USDRatio and HoursRatio are the geometric means over the runs of the ratios of billed to planned cost, and of
	// actual to planned time. WorstUSD is the ratio of costs that is furthest from 1.
	USDRatio   float64 `json:"usdRatio"`
	HoursRatio float64 `json:"hoursRatio"`
	WorstUSD   float64 `json:"worstUSDRatio"`
}

func (a app) bill(ctx context.Context, file string, o *billOptions) error {
	job, err := a.jobOn(file, dag.Market(o.market.String()))
	if err != nil {
		return err
	}
	boots, err := readBoots(o.boots)
	if err != nil {
		return err
	}
	p, err := planner.Production()
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(sim.GCPercent))
	r := &BillResult{Job: job.Name, Tasks: len(job.Tasks), Market: dag.Market(o.market.String())}
	for seed := o.seeds.from; seed < o.seeds.to && ctx.Err() == nil; seed++ {
		m, err := sim.Measure(seed, job, sim.MeasureOptions{Planner: p, Boots: boots, Preempted: o.preempted.Value,
			Within: o.within.Value})
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, m)
		if !o.output.JSON() {
			a.Tell("seed %d: %s", seed, text.USD(m.USD))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.summarize()
	if o.output.JSON() {
		return a.PrintJSON(r)
	}
	return a.printBill(r)
}

// jobOn reads a job and lets all its machines be of one market.
func (a app) jobOn(file string, m dag.Market) (*dag.Job, error) {
	name, body, err := a.ReadInput(file)
	if err != nil {
		return nil, err
	}
	job, err := read.Job(name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := range job.Tasks {
		t := &job.Tasks[i]
		if len(t.Resources) == 0 {
			t.Resources = make([]dag.Resources, 1)
		}
		t.Resources = slices.Clone(t.Resources)
		for k := range t.Resources {
			t.Resources[k].Market = m
		}
	}
	return job, job.Validate()
}

func (r *BillResult) summarize() {
	usd, hours := 0.0, 0.0
	r.WorstUSD = 1
	for _, m := range r.Runs {
		ratio := m.USD / m.PlannedUSD
		usd += math.Log(ratio)
		hours += math.Log(m.Hours / m.PlannedHours)
		if math.Abs(math.Log(ratio)) > math.Abs(math.Log(r.WorstUSD)) {
			r.WorstUSD = ratio
		}
	}
	n := float64(len(r.Runs))
	r.USDRatio, r.HoursRatio = math.Exp(usd/n), math.Exp(hours/n)
}

func (a app) printBill(r *BillResult) error {
	first, preempted := r.Runs[0], 0
	for _, m := range r.Runs {
		preempted += m.Preempted
	}
	return a.Printf("%s: %s on %s machines, simulated\nplanned %s in %s; billed %s as much, at worst %s, in %s as long"+
		" (%s, %s preempted)\n", r.Job, text.Count(r.Tasks, "task"), r.Market, text.USD(first.PlannedUSD),
		text.Span(text.Hours(first.PlannedHours)), times(r.USDRatio), times(r.WorstUSD), times(r.HoursRatio),
		text.Count(len(r.Runs), "run"), text.Count(preempted, "machine"))
}

// times formats a ratio.
func times(ratio float64) string { return fmt.Sprintf("%.3f times", ratio) }
