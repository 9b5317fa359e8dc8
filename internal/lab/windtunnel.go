package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// windtunnelOptions are the flags of windtunnel.
type windtunnelOptions struct {
	config   windtunnel.Config
	load     string
	phase    command.Span
	gap      command.Span
	limit    command.Span
	policies []string
	output   command.Choice
}

func (a app) windtunnelCommand() *cobra.Command {
	o := &windtunnelOptions{
		phase: command.Span{Value: time.Minute}, gap: command.Span{Value: windtunnel.DefaultGap},
		limit: command.Span{Value: parsync.DefaultSwitch}, output: command.NewChoice("table", "table", "json", "svg"),
	}
	c := &cobra.Command{
		Use:   "windtunnel",
		Short: "Measure how well schedulers share one cluster without a lock",
		Long: "Simulates many schedulers that place tasks on the slots of one cluster, as Feng et al. (ATC '21) do.\n" +
			"Each scheduler decides by its own view of the cluster, parts of which are outdated, and commits with a\n" +
			"conditional write. For each phase of load, the command prints how long tasks waited, the quality of\n" +
			"the slots that they got, and how often two schedulers wanted the same slot.\n" +
			"\n" +
			"These policies decide which slots a scheduler takes. With parsync, quality and latency, the state has\n" +
			"partitions, which a scheduler refreshes one after the other. quality takes the best slots, latency\n" +
			"those of the partition that was refreshed last, and parsync the best slots until tasks wait longer\n" +
			"than --switch, then as latency. statesync refreshes all partitions at once, draws --candidates slots\n" +
			"for a task, and takes the best. static and lock have no conflicts: with static each scheduler has its\n" +
			"own partitions, with lock it has one partition at a time.",
		Example: "  tradewind-lab windtunnel                                          # the paper's five phases\n" +
			"  tradewind-lab windtunnel --policy all -o svg > windtunnel.svg     # all policies, as a chart\n" +
			"  tradewind-lab windtunnel --load 66,100,100/66,66,100 --policy parsync   # two classes of schedulers",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.IntVar(&o.config.Schedulers, "schedulers", 20, "number of parallel schedulers")
	f.IntVar(&o.config.Partitions, "partitions", 40, "number of partitions of the cluster's state; more than "+
		"schedulers")
	f.IntVar(&o.config.Slots, "slots", 200_000, "number of slots of the cluster")
	f.Float64Var(&o.config.Rate, "rate", 40_000, "number of tasks that all schedulers together can try to place in a "+
		"second")
	f.StringVar(&o.load, "load", "50,80,95,80,50",
		"percent of the rate that arrives in each phase; after a slash, the same for another class of schedulers")
	f.Var(&o.phase, "phase", "virtual time of each phase")
	f.StringSliceVar(&o.policies, "policy", []string{string(parsync.Adaptive)},
		"parsync, latency, quality, static, lock, statesync, several of them or all")
	f.Var(&o.gap, "gap", "virtual time between two refreshes of a slot's state by one scheduler")
	f.Var(&o.limit, "switch", "waiting time after which parsync prefers fresh partitions to good slots")
	f.Float64Var(&o.config.ScoreVariance, "score-variance", windtunnel.DefaultVariance,
		"variance of the slots' scores, whose mean is 1")
	f.Float64Var(&o.config.Alike, "alike", 0, "correlation of the scores within a partition, from 0 to 1")
	f.IntVar(&o.config.Candidates, "candidates", windtunnel.DefaultCandidates,
		"slots that statesync draws for a task; 0 means all")
	f.Uint64Var(&o.config.Seed, "seed", 1, "seed of arrivals, times and draws")
	f.VarP(&o.output, "output", "o", "output format")
	command.CompleteChoice(c, "output", &o.output)
	_ = c.RegisterFlagCompletionFunc("policy",
		cobra.FixedCompletions(append(policyNames(), "all"), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.windtunnel(ctx, o)
	}
	return c
}

func policyNames() []string {
	var names []string
	for _, p := range windtunnel.Policies() {
		names = append(names, string(p))
	}
	return names
}

// WindtunnelResult is the output of `windtunnel -o json` for one policy; for several policies it is {"runs": […]}.
type WindtunnelResult struct {
	*windtunnel.Result
	Seconds float64 `json:"seconds"` // wall time
	Speed   float64 `json:"speed"`   // virtual seconds per second
}

func (a app) windtunnel(ctx context.Context, o *windtunnelOptions) error {
	c := o.config
	c.Phase, c.Gap, c.Switch = o.phase.Value, o.gap.Value, o.limit.Value
	var err error
	if c.Load, err = parseLoad(o.load); err != nil {
		return err
	}
	policies, err := parsePolicies(o.policies)
	if err != nil {
		return err
	}
	var runs []WindtunnelResult
	var results []*windtunnel.Result
	for _, policy := range policies {
		c.Policy = policy
		if len(policies) > 1 || o.output.JSON() {
			c.Progress = nil
		} else {
			c.Progress = func(phase, of int) { a.Tell("phase %d of %d", phase, of) }
		}
		began := a.Now()
		r, err := windtunnel.Run(ctx, c)
		if errors.Is(err, parsync.ErrInvalid) {
			return command.Because(err, command.ExitBadInput, "", "--%s",
				strings.TrimPrefix(err.Error(), parsync.ErrInvalid.Error()+": "))
		}
		if err != nil {
			return err
		}
		seconds := a.Now().Sub(began).Seconds()
		results = append(results, r)
		runs = append(runs, WindtunnelResult{Result: r, Seconds: seconds, Speed: r.Virtual / max(seconds, 1e-9)})
	}
	switch {
	case o.output.Value == "svg":
		return chart.SVG(a.Out, windtunnel.Panels(results)...)
	case !o.output.JSON():
		return a.printWindtunnel(runs)
	case len(runs) == 1:
		return a.PrintJSON(runs[0])
	default:
		return a.PrintJSON(struct {
			Runs []WindtunnelResult `json:"runs"`
		}{runs})
	}
}

// parseLoad parses percentages by phase and by class of schedulers.
func parseLoad(s string) ([][]float64, error) {
	var classes [][]float64
	for class := range strings.SplitSeq(s, "/") {
		var phases []float64
		for word := range strings.SplitSeq(class, ",") {
			v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(word), "%"), 64)
			if err != nil {
				return nil, command.BadInput("use a list of percentages, such as 50,80,95",
					"--load: %q is not a number", word)
			}
			phases = append(phases, v/100)
		}
		classes = append(classes, phases)
	}
	return classes, nil
}

func parsePolicies(names []string) ([]parsync.Policy, error) {
	var out []parsync.Policy
	for _, name := range names {
		if name == "all" {
			return windtunnel.Policies(), nil
		}
		p, err := windtunnel.ParsePolicy(name)
		if err != nil {
			return nil, command.BadInput("the policies are "+text.List(append(policyNames(), "all"), "and"),
				"--policy: unknown policy %q", name)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, command.BadInput("", "--policy is empty")
	}
	return out, nil
}

func (a app) printWindtunnel(runs []WindtunnelResult) error {
	t := &text.Table{Columns: []text.Column{
		{Name: "POLICY"}, {Name: "CLASS"}, {Name: "LOAD", Right: true}, {Name: "TASKS/S", Right: true},
		{Name: "DELAY", Right: true}, {Name: "P99", Right: true}, {Name: "QUALITY", Right: true},
		{Name: "CONFLICTS", Right: true}, {Name: "EXPECTED", Right: true, Optional: 1},
		{Name: "USED", Right: true, Optional: 2}, {Name: "WAITING", Right: true},
	}}
	for _, r := range runs {
		for i := range r.Phases {
			phaseRow(t, r, "", r.Phases[i])
			for class := range r.Classes {
				phaseRow(t, r, string(rune('A'+class)), r.Classes[class][i])
			}
		}
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	for _, r := range runs {
		a.Tell(
			"%s: %s of virtual time in %s, %.0f times faster than real time",
			r.Policy,
			text.Span(text.Hours(r.Virtual/3600)),
			text.Span(text.Hours(r.Seconds/3600)),
			r.Speed,
		)
	}
	return nil
}

// phaseRow adds the measurements of a phase, for one class of schedulers or for all.
func phaseRow(t *text.Table, r WindtunnelResult, class string, p windtunnel.Phase) {
	expected := ""
	if p.Expected > 0 {
		expected = text.Thousands(int(p.Expected))
	}
	t.Row(string(r.Policy), class, fmt.Sprintf("%.0f%%", p.Load), text.Thousands(int(p.PerSecond)),
		fmt.Sprintf("%.3fs", p.DelaySeconds),
		fmt.Sprintf("%.2fs", p.DelayP99), fmt.Sprintf("%.3f", p.Quality), text.Thousands(p.Conflicts), expected,
		fmt.Sprintf("%.0f%%", p.Used*100), text.Thousands(p.Waiting))
}
