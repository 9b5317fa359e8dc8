package lab

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/sim"
)

// chaosOptions are the flags of chaos.
type chaosOptions struct {
	seeds   seedsFlag
	jobs    int
	history int
	boots   string
	output  *command.Choice
	mail    bool
	older   bool
	managed bool
}

func (a app) chaosCommand() *cobra.Command {
	o := &chaosOptions{seeds: seedsFlag{to: 100}}
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Run the broker in simulated worlds full of faults and check that nothing is lost",
		Long: "Runs the broker's functions in virtual time, in one simulated world for each seed. Messages are lost,\n" +
			"repeated and reordered, the broker crashes between any two steps, and clouds fail, hang and interrupt\n" +
			"machines. After every step, the command checks that no job, event, machine or dollar is lost or\n" +
			"duplicated. It exits with 1 if such an invariant does not hold. The same seed always gives the same\n" +
			"history and the same failure. Ctrl-C prints the results until then.\n" +
			"\n" +
			"With --boot-times, boot times of machines are drawn from a CSV file of measured ones, with the columns\n" +
			"cloud, type and first_script_line_s (in seconds). Worlds with slow boots as a fault have these in\n" +
			"addition.\n" +
			"\n" +
			"With --services, jobs have Spark tasks, which run on simulated managed services. These services refuse\n" +
			"requests, are late, and lose answers, machines and applications.",
		Example: "  tradewind-lab chaos --seeds 0:500\n  tradewind-lab chaos --seeds 17 --history 1000   # one " +
			"seed, with " +
			"its last 1000 lines\n  tradewind-lab chaos --boot-times boot.csv.gz --seeds 0:100",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.Var(&o.seeds, "seeds", "seeds A (included) to B (excluded), or a single one")
	f.IntVar(&o.jobs, "jobs", 0, "number of jobs in each world (default: random by seed)")
	f.IntVar(&o.history, "history", 60, "lines of history to print for a failing seed, or for a single one")
	f.StringVar(&o.boots, "boot-times", "", "file of measured boot times to draw from")
	f.BoolVar(&o.mail, "mail", false,
		"in all worlds, machines reach the broker through a bucket (default: in a fifth of them)")
	f.BoolVar(&o.older, "older", false,
		"in all worlds, a broker of an older version rewrites every record (default: in one of 25)")
	f.BoolVar(&o.managed, "services", false,
		"add Spark tasks that may run on managed services")
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.chaos(ctx, o)
	}
	return c
}

// seedsFlag is a range of seeds, A:B or N.
type seedsFlag struct{ from, to uint64 }

func (f *seedsFlag) String() string { return fmt.Sprintf("%d:%d", f.from, f.to) }

// Type is the placeholder of the value in the help.
func (f *seedsFlag) Type() string { return "A:B" }

// Set accepts A:B or N.
func (f *seedsFlag) Set(s string) error {
	first, last, many := strings.Cut(s, ":")
	from, err := strconv.ParseUint(first, 10, 63)
	to := from + 1
	if err == nil && many {
		to, err = strconv.ParseUint(last, 10, 63)
	}
	if err != nil || to <= from {
		return fmt.Errorf("must be A:B, seeds A (included) to B (excluded), or one seed")
	}
	f.from, f.to = from, to
	return nil
}

// ChaosResult is the output of `chaos -o json`.
type ChaosResult struct {
	sim.Report
	Seconds float64 `json:"seconds"` // wall time
}

// maxViolations is the number of failing seeds after which the run stops.
const maxViolations = 5

func (a app) chaos(ctx context.Context, o *chaosOptions) error {
	if o.history < 0 || o.jobs < 0 {
		return command.BadInput("", "--history and --jobs must be at least 0")
	}
	boots, err := readBoots(o.boots)
	if err != nil {
		return err
	}
	began := a.Now()
	report, only, err := a.simulate(ctx, o, boots)
	if err != nil && report.Seeds == 0 {
		return err
	}
	r := &ChaosResult{Report: report, Seconds: a.Now().Sub(began).Seconds()}
	return a.reportChaos(o, r, only, err)
}

// reportChaos prints a result. If the run was interrupted, this is what it had seen until then, and interrupted is
// returned.
func (a app) reportChaos(o *chaosOptions, r *ChaosResult, only []string, interrupted error) error {
	if o.output.JSON() {
		if err := a.PrintJSON(r); err != nil {
			return err
		}
	} else if err := a.printChaos(r, only); err != nil {
		return err
	}
	if len(r.Violations) > 0 {
		v := r.Violations[0]
		return command.Failed(fmt.Sprintf("`tradewind-lab chaos --seeds %d --history 1000` replays it", v.Seed), "%v",
			&v.Violation)
	}
	return interrupted
}

// readBoots reads a file of boot times; nil if no file is named.
func readBoots(name string) (*hardware.Boots, error) {
	if name == "" {
		return nil, nil
	}
	boots, err := hardware.ReadBootsFile(name)
	if err != nil {
		return nil, command.BadInput("", "--boot-times: %v", err)
	}
	return boots, nil
}

// simulate runs the worlds, in parallel on all processors. For a single world it also returns the history.
func (a app) simulate(ctx context.Context, o *chaosOptions, boots *hardware.Boots) (report sim.Report, only []string,
	err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(sim.GCPercent))
	var told time.Time
	played, total := 0, int(o.seeds.to-o.seeds.from) //nolint:gosec // small numbers
	report, err = sim.Chaos(ctx, o.seeds.from, o.seeds.to, sim.ChaosOptions{
		Options: sim.Options{Jobs: o.jobs, Keep: o.history, Boots: boots, Mail: o.mail, Older: o.older,
			Services: o.managed},
		StopAfter: maxViolations,
	}, func(r sim.Result) {
		played++
		if total == 1 {
			only = r.History
		}
		if now := a.Now(); now.Sub(told) >= 5*time.Second && !o.output.JSON() {
			if !told.IsZero() {
				a.Tell("%s of %s", text.Thousands(played), text.Count(total, "seed"))
			}
			told = now
		}
	})
	return report, only, err
}

func (a app) printChaos(r *ChaosResult, only []string) error {
	for _, line := range only {
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	for _, v := range r.Violations {
		if only != nil {
			break
		}
		for _, line := range v.History {
			if err := a.Printf("%s\n", line); err != nil {
				return err
			}
		}
		if err := a.Printf("%v\n\n", &v.Violation); err != nil {
			return err
		}
	}
	style := a.Style(a.Out)
	verdict := style.Paint(text.Good, "no violation")
	if n := len(r.Violations); n > 0 {
		verdict = style.Paint(text.Bad, text.Count(n, "violation"))
	}
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	if err := a.Printf("%s in %s: %s steps, %s, %s faults, %s of virtual time in %s\n", verdict,
		text.Count(r.Seeds, "seed"), text.Thousands(r.Steps), text.Count(r.Jobs, "job"), text.Thousands(faults),
		text.Span(text.Hours(r.Hours)), text.Span(text.Hours(r.Seconds/3600))); err != nil {
		return err
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		kinds = append(kinds, kind+" "+text.Thousands(r.Faults[kind]))
	}
	if len(kinds) == 0 {
		return nil
	}
	return a.PrintLines(text.Wrap("faults: "+strings.Join(kinds, ", "), command.Width(a.Out)))
}
