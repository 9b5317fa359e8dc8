package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/prices"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

func (a app) backtestCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backtest",
		Short: "Replay policies on recorded prices, availability or clusters",
		Long: "Replays policies on recorded data. bid, availability and workflow replay policies that run a task or a\n" +
			"DAG on spot machines by a deadline, and compare them with the best choice in hindsight. cluster\n" +
			"replays policies that schedule a cluster. The same input and --seed give the same output.\n" +
			"docs/bidding.md and docs/scheduling.md define the measures.",
		Example: "  tradewind-lab backtest bid --prices data/aws-2016 --work 24h --deadline 36h\n" +
			"  tradewind-lab backtest availability --traces data/availability --work 48h --deadline 60h\n" +
			"  tradewind-lab backtest workflow --dag montage.xml --prices data/aws-2016\n" +
			"  tradewind-lab backtest cluster --nodes nodes.csv --pods pods.csv",
	}
	command.Group(c)
	c.AddCommand(a.backtestBidCommand(), a.backtestAvailabilityCommand(), a.backtestWorkflowCommand(),
		a.backtestClusterCommand())
	return c
}

// backtestFlags are the flags that all back-tests share.
type backtestFlags struct {
	policies []string
	seed     uint64
	output   command.Choice
}

func (f *backtestFlags) add(c *cobra.Command) {
	f.output = command.NewChoice("table", "table", "json", "svg")
	c.Flags().StringSliceVar(&f.policies, "policy", []string{"all"},
		"policies: all, or some of "+strings.Join(backtest.Policies(), ","))
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the random numbers")
	c.Flags().VarP(&f.output, "output", "o", "output format")
	command.CompleteChoice(c, "output", &f.output)
	_ = c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(append([]string{"all"}, backtest.Policies()...),
		cobra.ShellCompDirectiveNoFileComp))
}

// pricesFlags choose the markets of a back-test.
type pricesFlags struct {
	folder string
	types  []string
}

func (f *pricesFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.folder, "prices", "", "folder of recorded prices (required)")
	c.Flags().StringSliceVar(&f.types, "types", nil,
		"only the sizes of these machine families, or only these machine types (default: all)")
	_ = c.MarkFlagDirname("prices")
}

func (f *pricesFlags) read() ([]*market.Market, error) {
	markets, err := prices.ReadFolder(f.folder)
	if err != nil {
		return nil, err
	}
	if markets, err = backtest.OfTypes(markets, f.types); err != nil {
		return nil, backtestFailure(err)
	}
	return markets, nil
}

func addRestart(c *cobra.Command, restart *time.Duration) {
	c.Flags().DurationVar(restart, "restart", 0, "time that each start of a machine takes, at most 1h")
}

func (a app) backtestBidCommand() *cobra.Command {
	var f backtestFlags
	var from pricesFlags
	work, deadline, every := command.Span{Value: 24 * time.Hour}, command.Span{Value: 36 * time.Hour},
		command.Span{Value: 6 * time.Hour}
	var train float64
	var restart time.Duration
	c := &cobra.Command{
		Use:   "bid",
		Short: "Replay a task on recorded spot prices",
		Args:  command.Args(0, 0),
		Long: "Replays one task on every spot market below the folder --prices. It starts the task every --every\n" +
			"after the training part of the prices (--train). Each started hour is billed in full, at the price at\n" +
			"its beginning; a policy bids before it knows this price. The folder has CSV files, optionally gzipped,\n" +
			"with one market each (time,usd_per_hour, with on-demand.csv next to them) or with many. Exits with 2\n" +
			"for an invalid series, and prints its row and column.",
		Example: "  tradewind-lab backtest bid --prices data/aws-2016 --work 24h --deadline 36h --every 6h --train 0.5\n" +
			"  tradewind-lab backtest bid --prices data/aws-2016 --deadline 48h --policy markov,greedy -o json",
	}
	p := c.Flags()
	from.add(c)
	p.Var(&work, "work", "run time of the task without interruptions")
	p.Var(&deadline, "deadline", "time from start to deadline, in whole hours")
	p.Var(&every, "every", "time between two starts of the task")
	addRestart(c, &restart)
	p.Float64Var(&train, "train", 0.5, "share of each market's prices that policies know before the first start")
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		markets, err := from.read()
		if err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		r, err := backtest.Bid(ctx, markets, backtest.BidOptions{
			Work: work.Value.Hours(), Deadline: int(deadline.Value.Hours()), Every: int(every.Value.Hours()),
			Train: train, Restart: restart.Hours(), Policies: f.policies,
		})
		return a.reportBacktest(&f, r, err, "market", "cost of "+text.Span(work.Value)+" of work by a deadline of "+
			text.Span(deadline.Value))
	}
	return c
}

func (a app) backtestAvailabilityCommand() *cobra.Command {
	var f backtestFlags
	var traces string
	work, deadline := command.Span{Value: 48 * time.Hour}, command.Span{Value: 60 * time.Hour}
	every := command.Span{Value: 24 * time.Hour}
	var changeover time.Duration
	var ratio float64
	var nodes int
	zones := command.NewChoice("each", "each", "together")
	c := &cobra.Command{
		Use:   "availability",
		Short: "Replay a task on traces of machine availability",
		Args:  command.Args(0, 0),
		Long: "Replays one task on every availability trace below the folder --traces (JSON, optionally gzipped).\n" +
			"With --zones together, the traces of a folder are zones, and the task may move between them. Costs are\n" +
			"in hours of an on-demand machine.\n" +
			"\n" +
			"The policy uniform-progress uses one zone: with --zones together, its result is the mean over the\n" +
			"zones. uniform-progress-zones is an extension that uses any zone with machines.",
		Example: "  tradewind-lab backtest availability --traces data/availability --work 48h --deadline 60h\n" +
			"  tradewind-lab backtest availability --traces data/availability --zones together -o json",
	}
	p := c.Flags()
	p.StringVar(&traces, "traces", "", "folder of availability traces (required)")
	p.Var(&work, "work", "run time of the task without interruptions")
	p.Var(&deadline, "deadline", "time from start to deadline")
	p.DurationVar(&changeover, "changeover", 12*time.Minute,
		"time that each start of a machine takes, which is paid but brings no progress")
	p.Float64Var(&ratio, "spot-ratio", 0.333, "spot price as a share of the on-demand price")
	p.Var(&every, "every", "time between two starts of the task")
	p.IntVar(&nodes, "nodes", 1, "number of machines that the task needs at the same time")
	p.Var(&zones, "zones", "use each trace separately, or those of a folder together")
	command.CompleteChoice(c, "zones", &zones)
	_ = c.MarkFlagDirname("traces")
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if traces == "" {
			return command.BadInput("docs/bidding.md describes the files",
				"--traces is missing: a folder of availability traces")
		}
		if err := prices.IsFolder(traces); err != nil {
			return err
		}
		read, err := market.ReadTraces(os.DirFS(traces))
		if err != nil {
			return prices.BadData(traces, err)
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		r, err := backtest.Availability(ctx, read, backtest.AvailabilityOptions{
			Work: work.Value.Hours(), Deadline: deadline.Value.Hours(), Changeover: changeover.Hours(),
			SpotRatio: ratio,
			Every:     every.Value.Hours(), Together: zones.Value == "together", Nodes: nodes, Policies: f.policies,
		})
		return a.reportBacktest(&f, r, err, "trace", "cost of "+text.Span(work.Value)+" of work by a deadline of "+
			text.Span(deadline.Value))
	}
	return c
}

func (a app) backtestWorkflowCommand() *cobra.Command {
	var f backtestFlags
	var from pricesFlags
	var file string
	var deadlines []string
	var repeats int
	var train float64
	var restart time.Duration
	span := command.Span{Value: 24 * time.Hour}
	c := &cobra.Command{
		Use:   "workflow",
		Short: "Replay a DAG on recorded spot prices",
		Args:  command.Args(0, 0),
		Long: "Repeats the experiment of the WCSSI paper: replays a DAG on the recorded spot prices of each zone,\n" +
			"from random start times. The speed of a machine is assumed to be proportional to its on-demand price.\n" +
			"Recorded run times are scaled so that the DAG takes --time on the most powerful machine type.\n" +
			"Deadlines are multiples of --time.",
		Example: "  tradewind-lab backtest workflow --dag montage.xml --prices data/aws-2016 --deadlines 1.1,1.5,2,3 --repeats 30\n" +
			"  tradewind-lab backtest workflow --dag sipht.xml.gz --prices data/aws-2016 --policy " +
			"aib,bfrc,markov -o json",
	}
	p := c.Flags()
	p.StringVar(&file, "dag", "",
		"the workflow: Pegasus DAX, WfCommons JSON or Tradewind YAML with run times (required)")
	from.add(c)
	p.StringSliceVar(&deadlines, "deadlines", []string{"1.1", "1.5", "2", "3"},
		"deadlines as multiples of the workflow's own time")
	p.IntVar(&repeats, "repeats", 30, "runs for each deadline and zone")
	p.Float64Var(&train, "train", 0.5, "share of the prices to use as history before the first start")
	p.Var(&span, "time", "time of the workflow on the most powerful type, to which run times are scaled")
	addRestart(c, &restart)
	_ = c.MarkFlagFilename("dag")
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		multiples, err := parseMultiples(deadlines)
		if err != nil {
			return err
		}
		if file == "" {
			return command.BadInput("use any format that `tradewind plan` reads",
				"--dag is missing: a file with a workflow")
		}
		job, err := jobfile.Read(a.App, file)
		if err != nil {
			return err
		}
		markets, err := from.read()
		if err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		r, err := backtest.Workflow(ctx, job.Spec, markets, backtest.WorkflowOptions{
			Deadlines: multiples, Repeats: repeats, Seed: f.seed, Train: train, Hours: span.Value.Hours(),
			Restart: restart.Hours(), Policies: f.policies,
		})
		if err != nil {
			return backtestFailure(err)
		}
		return a.printWorkflow(&f, r, job.Spec.Name)
	}
	return c
}

func parseMultiples(words []string) ([]float64, error) {
	var out []float64
	for _, w := range words {
		x, err := strconv.ParseFloat(strings.TrimSpace(w), 64)
		if err != nil {
			return nil, command.BadInput("write them as 1.1,1.5,2", "--deadlines: %q is not a number", w)
		}
		out = append(out, x)
	}
	return out, nil
}

func backtestFailure(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, backtest.ErrBadRequest):
		return command.Because(err, command.ExitBadInput, "", "%v", err)
	default:
		return command.Because(err, command.ExitFailed, "", "%v", err)
	}
}

// reportBacktest prints a report in the chosen format.
func (a app) reportBacktest(f *backtestFlags, r *backtest.Report, err error, noun, title string) error {
	if err != nil {
		return backtestFailure(err)
	}
	if len(r.Skipped) > 0 && f.output.Value == "table" {
		a.Warn([]string{fmt.Sprintf("%s skipped: too short for a run, or without an on-demand price",
			text.Count(len(r.Skipped), noun))})
	}
	switch f.output.Value {
	case "json":
		return a.PrintJSON(r)
	case "svg":
		return a.backtestSVG(title, []backtest.Group{{Name: "", Policies: r.Policies}})
	}
	if err := a.PrintTable(policyTable(r.Policies, false)); err != nil {
		return err
	}
	return a.Printf("%s on %s\n", text.Count(r.Runs, "run"), text.Count(len(r.Markets), noun))
}

// policyTable has a row for each policy, sorted by cost, with the bound last.
func policyTable(policies map[string]backtest.Result, workflows bool) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "POLICY"}, {Name: "USD", Right: true}, {Name: "ON-DEMAND", Right: true},
		{Name: "CLAIRVOYANT", Right: true}, {Name: "MISSES", Right: true}, {Name: "INTERRUPTIONS", Right: true},
	}}
	if workflows {
		t.Columns = append(t.Columns, text.Column{Name: "AIB", Right: true})
	}
	for _, name := range sortedPolicies(policies) {
		p := policies[name]
		row := []string{
			name, fmt.Sprintf("%.4f", p.USD), fmt.Sprintf("%.1f%%", 100*p.ToOnDemand),
			fmt.Sprintf("×%.4f", p.ToClairvoyant), strconv.Itoa(p.Misses), strconv.Itoa(p.Interruptions),
		}
		if workflows {
			row = append(row, fmt.Sprintf("×%.4f", p.ToAIB))
		}
		t.Row(row...)
	}
	return t
}

// sortedPolicies returns the names of policies in their canonical order.
func sortedPolicies(policies map[string]backtest.Result) (names []string) {
	for _, name := range backtest.Policies() {
		if name == backtest.BFRC {
			if _, ok := policies[backtest.UniformProgressZones]; ok {
				names = append(names, backtest.UniformProgressZones)
			}
		}
		if _, ok := policies[name]; ok {
			names = append(names, name)
		}
	}
	return slices.Clip(names)
}

func (a app) printWorkflow(f *backtestFlags, r *backtest.WorkflowReport, name string) error {
	switch f.output.Value {
	case "json":
		return a.PrintJSON(r)
	case "svg":
		return a.backtestSVG("cost of "+name+" as a share of on demand, by deadline", r.Deadlines)
	}
	if err := a.PrintTable(policyTable(r.Policies, true)); err != nil {
		return err
	}
	return a.Printf("%s in %s\n", text.Count(r.Runs, "run"), text.Count(len(r.Markets), "zone"))
}
