package planning

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// planOptions are the flags of plan.
type planOptions struct {
	over     *jobfile.Overrides
	limits   *jobfile.Limits
	catalog  string
	clouds   []string
	state    string
	on       clouds.Enabled
	modelOut string
	explain  bool
	members  bool
	output   command.Choice

	frontier  bool
	points    int
	timeLimit command.Span

	leastCarbon bool
	carbonCap   *float64
}

// Plan is the plan command.
func Plan(in *command.App, enabled clouds.EnabledFunc) *cobra.Command {
	a := app{in}
	o := &planOptions{}
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show where a DAG would run, at what cost and for how long",
		Long: "Plans the DAG in FILE with the catalogue's list prices, and runs nothing. - is standard input. It\n" +
			"needs no broker. The plan uses the clouds in --cloud, else those of the broker that is running for the\n" +
			"state folder, else those that `tradewind cloud add` has added, else all. Exits with 3 if no plan meets\n" +
			"the deadline and the budget, or if no offer fits a task.",
		Example: "  tradewind plan examples/train-infer.yaml --explain\n" +
			"  tradewind plan job.yaml --objective makespan --budget 20 --cloud aws,gcp\n" +
			"  tradewind plan job.yaml -o json | jq .usd\n" +
			"  tradewind plan job.yaml --frontier                        # what each deadline would cost\n" +
			"  tradewind plan job.yaml --frontier -o svg > frontier.svg  # the same, drawn\n" +
			"  tradewind plan job.yaml --model-out model.json && tradewind-lab optimize model.json",
		Args:              command.Args(1, 1),
		ValidArgsFunction: command.CompleteFile,
	}
	o.over = jobfile.OverrideFlags(c, false)
	o.limits = jobfile.LimitFlags(c)
	command.CatalogFlag(c, &o.catalog)
	f := c.Flags()
	f.StringSliceVar(&o.clouds, "cloud", nil, "only these clouds: aws,gcp")
	a.StateFlag(c, &o.state)
	f.StringVar(&o.modelOut, "model-out", "", "also write the optimizer's model to this file")
	f.BoolVar(&o.explain, "explain", false, "also show which offers were second best for each task")
	f.BoolVar(&o.members, "members", false, "show each member of an array in a separate row")
	f.BoolVar(&o.frontier, "frontier", false, "show what each deadline would cost, instead of one plan")
	f.IntVar(&o.points, "points", 40, "maximum number of plans that --frontier looks for; 0 means all")
	f.Var(&o.timeLimit, "time-limit", "maximum time for --frontier (default 10s)")
	f.BoolVar(&o.leastCarbon, "least-carbon", false, "minimise the machines' emissions; overrides the file's objective")
	limit := f.Float64("carbon-cap", 0, "maximum emissions of the machines, kg CO2eq")
	o.output = command.NewChoice("table", "table", "json", "yaml", frontierSVG)
	f.VarP(&o.output, "output", "o", "output format; svg plots the frontier")
	command.CompleteChoice(c, "output", &o.output)
	c.RunE = func(c *cobra.Command, given []string) error {
		if c.Flags().Changed("carbon-cap") {
			o.carbonCap = limit
		}
		err := o.check()
		if err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if o.on, err = enabled(ctx, command.Absolute(o.state), o.clouds); err != nil {
			return err
		}
		return a.plan(ctx, given[0], o)
	}
	return c
}

// check refuses conflicting flags.
func (o *planOptions) check() error {
	switch {
	case o.output.Value == frontierSVG && !o.frontier:
		return command.BadInput("add --frontier", "-o svg needs --frontier")
	case o.frontier && (o.modelOut != "" || o.explain):
		return command.BadInput("", "--frontier shows many plans: --model-out and --explain need a single one")
	case o.leastCarbon && o.frontier:
		return command.BadInput(
			"use --carbon-cap instead",
			"--frontier is about time and cost and excludes --least-carbon",
		)
	case o.carbonCap != nil && !(*o.carbonCap >= 0 && *o.carbonCap <= optimizer.MaxValue):
		return command.BadInput("", "--carbon-cap: %v is not an amount of at least 0", *o.carbonCap)
	case o.points < 0:
		return command.BadInput("", "--points: %d is below 0", o.points)
	}
	return nil
}

// PlanResult is the output of `plan -o json`.
type PlanResult struct {
	Name      string `json:"name"`
	Objective string `json:"objective"` // cost, makespan, weights or carbon
	// Weights are those of the objective weights.
	Weights       *dag.Weights `json:"weights,omitempty"`
	DeadlineHours *float64     `json:"deadlineHours"`
	BudgetUSD     *float64     `json:"budgetUSD"`
	Status        string       `json:"status"` // optimal, feasible or infeasible
	Message       string       `json:"message,omitempty"`
	USD           float64      `json:"usd"`
	Hours         float64      `json:"hours"`
	Bound         float64      `json:"bound"`           // in the objective's unit
	TransferUSD   float64      `json:"transferUSD"`     // part of USD for moving data
	KeepUSD       float64      `json:"keepUSDPerMonth"` // in addition to USD: storage of the outputs per month
	OnDemandUSD   float64      `json:"onDemandUSD"`
	// ServicesUSDPerHour is the cost of one hour of all services; USD includes one hour of each replica.
	ServicesUSDPerHour float64    `json:"servicesUSDPerHour,omitempty"`
	KgCO2              float64    `json:"kgCO2,omitempty"` // emissions of the machines, if all their grids are known
	Millis             float64    `json:"millis"`          // time to solve
	Clouds             []string   `json:"clouds"`          // clouds that it was made on
	Tasks              []PlanTask `json:"tasks"`
	// Fleets are the machines that tasks share. The USD of a task is then its part of a machine's cost.
	Fleets    []PlanFleet `json:"fleets,omitempty"`
	Placement []string    `json:"placement,omitempty"` // placement rules, with their tasks
	Notes     []string    `json:"notes,omitempty"`     // rules that the plan does not satisfy
	Warnings  []string    `json:"warnings,omitempty"`
	services  []string    // about the tasks on managed services
}

// PlanTask is where a plan runs a task.
type PlanTask struct {
	Name         string   `json:"name"`
	Service      string   `json:"service,omitempty"` // service of which it is a replica
	After        []string `json:"after,omitempty"`
	Offer        string   `json:"offer"`
	Cloud        string   `json:"cloud"`
	Region       string   `json:"region"`
	Zone         string   `json:"zone,omitempty"`
	InstanceType string   `json:"instanceType"`
	Accelerator  string   `json:"accelerator,omitempty"` // V100:8
	Market       string   `json:"market"`                // spot, on-demand, reserved or committed
	// Reservation is the existing capacity of the account that it runs on; Takes is how much of a commitment it uses.
	Reservation string            `json:"reservation,omitempty"`
	Takes       apitypes.Amount   `json:"takes,omitzero"`
	Nodes       int               `json:"nodes"`
	USDPerHour  float64           `json:"usdPerHour"`          // of one machine
	Hours       float64           `json:"hours"`               // expected
	Time        *apitypes.Figure  `json:"time,omitempty"`      // estimated duration there, and its source
	Estimator   string            `json:"estimator,omitempty"` // the source of the time, as in time.from
	USD         float64           `json:"usd"`                 // expected
	Runners     []apitypes.Runner `json:"runners,omitempty"`
}

func (a app) plan(ctx context.Context, path string, o *planOptions) error {
	home, packing := a.Lookup("HOME"), o.limits.Options(nil)
	f, err := o.over.Read(a.App, path)
	if err != nil {
		return f.AddMissing(ctx, home, packing, err)
	}
	if err := f.DefaultFrom(a.App, len(o.clouds) > 0); err != nil {
		return err
	}
	if err := f.Settle(ctx, home, packing); err != nil {
		return err
	}
	p, c, err := newPlannerOn(o.on, o.catalog, o.clouds, o.carbon)
	if err != nil {
		return err
	}
	if err := checkServices(c, f.Spec); err != nil {
		return err
	}
	a.Tell("%s", o.on.Describe(c.Clouds()))
	learned := o.on.Learned(ctx, f.Spec.Name)
	f.Spec = history.Fill(f.Spec, learned)
	in := inputOf(f.Spec, a.Now())
	in.Boots = learned.Boots
	if o.frontier {
		return a.frontier(ctx, p, c, in, o)
	}
	if o.modelOut != "" {
		if err := a.writeModel(p, in, o.modelOut); errors.Is(err, planner.ErrInfeasible) {
			return cmp.Or(CheckOffers(c, f.Spec, o.clouds), infeasible(err))
		} else if err != nil {
			return err
		}
	}
	plan, err := p.Plan(ctx, in)
	if err != nil {
		return err
	}
	r := planResult(in, plan)
	r.Clouds = c.Clouds()
	r.Notes = append(r.Notes, leftOut(o.on, f.Spec)...)
	if o.leastCarbon {
		r.Objective = string(optimizer.Carbon)
	}
	var verdict error
	if plan.Status == record.PlanInfeasible {
		if verdict = CheckOffers(c, f.Spec, o.clouds); verdict == nil {
			verdict = &command.Failure{Code: command.ExitInfeasible, Text: "infeasible: " + plan.Message,
				Hint: o.relaxed(ctx, p, in, r)}
		}
	} else {
		r.KgCO2 = p.Emissions(in, plan)
		r.services = serviceLines(f.Spec, plan)
	}
	return errors.Join(a.printPlan(r, o), verdict)
}

// inputOf returns the planning input of a job that has not started.
func inputOf(spec *dag.Job, now time.Time) planinput.Input {
	in := planinput.Input{Spec: spec.WithWorkers(), Now: now}
	if spec.Deadline > 0 {
		h := spec.Deadline.Hours()
		in.DeadlineHours = &h
	}
	if spec.Budget > 0 {
		usd := float64(spec.Budget)
		in.BudgetUSD = &usd
	}
	return in
}

// carbon applies the emission flags.
func (o *planOptions) carbon(opt *planner.Options) {
	opt.LeastCarbon, opt.CarbonCapKg = o.leastCarbon, o.carbonCap
}

// newPlanner makes a planner on a catalogue, restricted to some clouds if they are named.
func newPlanner(dir string, named []string,
	tune ...func(*planner.Options)) (*planner.Planner, *catalog.Catalog, error) {
	return newPlannerOn(clouds.Enabled{}, dir, named, tune...)
}

// newPlannerOn is newPlanner on the enabled clouds.
func newPlannerOn(on clouds.Enabled, dir string, named []string,
	tune ...func(*planner.Options)) (*planner.Planner, *catalog.Catalog, error) {
	all, err := catalog.Open(dir)
	if err == nil {
		err = KnownClouds(all, named)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := on.Catalog(dir)
	if err != nil {
		return nil, nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, nil, err
	}
	opt := planner.DefaultOptions()
	opt.Clouds, opt.Without, opt.Archs = named, on.Excluded, on.Archs
	opt.Services, opt.Limit = plannedServices(on), on.Limit
	if on.Mail {
		opt.Handling = config.MailHandling
	}
	for _, t := range tune {
		t(&opt)
	}
	return planner.New(c, moves, opt), c, nil
}

func (a app) writeModel(p *planner.Planner, in planinput.Input, path string) error {
	model, err := p.Model(in)
	if err != nil {
		return err
	}
	if model.Edges == nil {
		model.Edges = []optimizer.Edge{} // not null: the format requires a list
	}
	if path == command.Stdin {
		return json.NewEncoder(a.Out).Encode(model)
	}
	return command.WriteFile(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(model) })
}

// infeasible turns an error into a failure with the exit code for infeasible plans.
func infeasible(err error) error { return command.Because(err, command.ExitInfeasible, "", "%v", err) }

// planResult converts a plan to the JSON output.
func planResult(in planinput.Input, p *record.Plan) *PlanResult {
	spec := in.Spec
	r := &PlanResult{
		Name: spec.Name, Objective: string(spec.Objective), Weights: spec.Weights,
		DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD,
		Status: p.Status, Message: p.Message, USD: p.USD, Hours: p.Hours, Bound: p.Bound, OnDemandUSD: p.OnDemandUSD,
		KeepUSD: p.KeepUSD, Millis: p.Millis, Tasks: []PlanTask{}, Warnings: spec.Warnings,
		Placement: rulesOf(spec), Notes: p.Notes,
	}
	if p.Status == record.PlanInfeasible {
		return r
	}
	g := spec.Graph()
	for i := range spec.Work() {
		t := PlanTask{Name: spec.Tasks[i].Name, Nodes: max(spec.Tasks[i].Nodes, 1)}
		for _, parent := range g.Parents(i) {
			t.After = append(t.After, spec.Tasks[parent].Name)
		}
		if c := p.Of(i); c != nil {
			t.Nodes = record.NodesOn(&spec.Tasks[i], c)
			if t.place(c); c.Offer.Service != "" {
				t.Nodes = 1 // its price is of all executors
			}
			t.Hours, t.USD, t.Runners = p.TaskHours[i], p.TaskUSD[i], p.Runners[i]
			f := history.FigureOf(&spec.Tasks[i], c.Offer)
			t.Time, t.Estimator = &f, f.From
		}
		r.Tasks = append(r.Tasks, t)
	}
	for i := range p.TaskUSD {
		r.TransferUSD -= p.OwnUSD(i)
	}
	r.Fleets = fleetsOf(p)
	r.setServices(spec, p)
	// The sum of many numbers has rounding errors; ignore less than a millionth of it.
	if r.TransferUSD += p.USD; r.TransferUSD < 1e-6*p.USD {
		r.TransferUSD = 0
	}
	return r
}

func (t *PlanTask) place(c *record.Planned) {
	t.Offer, t.Cloud, t.Region, t.Zone = c.ID, c.Offer.Cloud, c.Offer.Region, c.Offer.Zone
	t.InstanceType, t.USDPerHour, t.Market = c.Offer.InstanceType, c.Offer.USDPerHour, catalog.OnDemand.String()
	if c.Offer.Spot {
		t.Market = catalog.Spot.String()
	}
	if c.Offer.Reservation != "" {
		t.Market, t.Reservation = "reserved", c.Offer.Reservation
		if !c.Offer.Takes.IsZero() {
			_, t.Takes = c.Offer.Room(t.Nodes)
			t.Market = "committed"
		}
	}
	if c.Offer.Accelerator != "" {
		t.Accelerator = dag.AcceleratorKey(c.Offer.Accelerator, c.Offer.AccelCount)
	}
}

// printPlan prints a plan, or as much as there is of it.
func (a app) printPlan(r *PlanResult, o *planOptions) error {
	switch {
	case o.modelOut == command.Stdin:
		return nil // standard output holds the model
	case o.output.JSON():
		return a.PrintJSON(r)
	}
	a.Warn(r.Warnings)
	a.Warn(r.Notes)
	if r.Status == record.PlanInfeasible {
		return nil
	}
	for _, line := range slices.Concat(surprises(r.Tasks), r.services) {
		a.Tell("%s", line)
	}
	return a.planTable(r, o)
}

// relax suggests which bounds to relax.
func (o *planOptions) relax(r *PlanResult) string {
	switch {
	case o.carbonCap != nil:
		return "allow more emissions (--carbon-cap)"
	case r.DeadlineHours != nil && r.BudgetUSD != nil:
		return "allow more time (--deadline) or money (--budget)"
	case r.DeadlineHours != nil:
		return "allow more time (--deadline)"
	case r.BudgetUSD != nil:
		return "allow more money (--budget)"
	default:
		return ""
	}
}

// planTable prints a plan for a person.
func (a app) planTable(r *PlanResult, o *planOptions) error {
	t := text.Table{Columns: []text.Column{
		{Name: "TASK", Flexible: true}, {Name: "OFFER", Flexible: true, Fit: text.Place}, {Name: "MARKET", Optional: 4},
		{Name: "NODES", Right: true, Optional: 3}, {Name: "USD/H", Right: true, Optional: 2},
		{Name: "EXPECTED H", Right: true, Optional: 1}, {Name: "FROM", Optional: 5}, {Name: "USD", Right: true},
		{Name: "WOULD ADD", Right: true},
	}}
	nodes := false
	for i := range r.Tasks {
		nodes = nodes || r.Tasks[i].Nodes > 1
	}
	tasks := r.Tasks
	if !o.members {
		tasks = folded(tasks)
	}
	froms := timesFrom(tasks)
	for i := range tasks {
		task := &tasks[i]
		count := ""
		if nodes {
			count = fmt.Sprint(task.Nodes)
		}
		tone := text.Plain
		if task.Market == catalog.Spot.String() {
			tone = text.Good
		}
		t.Rows = append(t.Rows, []text.Cell{
			{Text: task.Name}, {Text: withoutMarket(task)}, {Text: task.Market, Tone: tone}, {Text: count},
			{Text: text.USD(task.USDPerHour)}, {Text: fmt.Sprintf("%.2f", task.Hours)}, {Text: froms[i]},
			{Text: text.USD(task.USD)}, {},
		})
		if o.explain {
			t.Rows = append(t.Rows, runnerRows(task, r.Objective)...)
		}
	}
	if err := a.PrintTable(&t); err != nil {
		return err
	}
	if err := a.fleetLines(r.Fleets); err != nil {
		return err
	}
	for i, rule := range r.Placement {
		if i == 0 {
			rule = "\n" + rule
		}
		if err := a.Printf("%s\n", rule); err != nil {
			return err
		}
	}
	return a.planTotals(r)
}

// folded returns the tasks with one entry for each array: its cost is that of all members, and its time the longest.
func folded(tasks []PlanTask) (out []PlanTask) {
	names := make([]string, len(tasks))
	for i := range tasks {
		names[i] = tasks[i].Name
	}
	next := 0
	for _, run := range text.MemberRuns(names) {
		members := tasks[run[0]:run[1]]
		out = append(out, tasks[next:run[0]]...)
		one := members[0]
		one.Name = fmt.Sprintf("%s  %s", text.Array(names[run[0]:run[1]]), text.Count(len(members), "member"))
		one.Offer = text.Same(len(members), "offer", func(i int) string { return members[i].Offer })
		one.Market = text.Same(len(members), "market", func(i int) string { return members[i].Market })
		for i := range members[1:] {
			one.USD += members[1+i].USD
			one.Hours = max(one.Hours, members[1+i].Hours)
		}
		out, next = append(out, one), run[1]
	}
	return append(out, tasks[next:]...)
}

// withoutMarket returns an offer's ID without the market, which has its own column.
func withoutMarket(t *PlanTask) string {
	id := text.Clean(t.Offer)
	if n := len(id) - len(t.Market) - 1; n > 0 && id[n:] == "/"+t.Market {
		return id[:n]
	}
	return id
}

// runnerRows returns the runners-up of a task, with the amount that each would add to the plan.
func runnerRows(t *PlanTask, objective string) [][]text.Cell {
	var rows [][]text.Cell
	for _, r := range t.Runners {
		rows = append(rows, []text.Cell{
			{}, {Text: "or " + text.Clean(r.ID), Tone: text.Faint}, {}, {}, {},
			{Text: fmt.Sprintf("%.2f", r.Hours), Tone: text.Faint}, {},
			{Text: text.USD(r.USD), Tone: text.Faint}, {Text: Adds(r, objective), Tone: text.Faint},
		})
	}
	return rows
}

// planTotals prints the totals of the plan.
func (a app) planTotals(r *PlanResult) error {
	style := a.Style(a.Out)
	proof := "proven optimal"
	if r.Status != "optimal" {
		unit, named := map[string]string{string(dag.MinimizeMakespan): " h", string(optimizer.Carbon): " kg",
			string(dag.MinimizeWeighted): " by the weights"}[r.Objective]
		if !named {
			unit = " USD"
		}
		proof = fmt.Sprintf("no plan is better than %.4g%s", r.Bound, unit)
	}
	line := fmt.Sprintf("%s USD, expected to take %s (%s, in %s)", text.USD(r.USD), text.Span(text.Hours(r.Hours)),
		proof, text.Span(text.Hours(r.Millis/3.6e6)))
	if err := a.Printf("\n%s: %s\n", style.Paint(text.Strong, "plan"), line); err != nil {
		return err
	}
	a.Tell("USD/H includes each machine's disk and public address; `tradewind catalog search` lists the machine alone")
	if r.TransferUSD > 0 {
		if err := a.Printf("      %s USD of it for moving data\n", text.USD(r.TransferUSD)); err != nil {
			return err
		}
	}
	if r.KeepUSD > 0 {
		if err := a.Printf("      storing its outputs: %s USD a month\n", text.USD(r.KeepUSD)); err != nil {
			return err
		}
	}
	if r.KgCO2 > 0 {
		if err := a.Printf("      the machines emit about %s kg CO2eq\n",
			strconv.FormatFloat(r.KgCO2, 'g', 3, 64)); err != nil {
			return err
		}
	}
	if err := a.servicesTotal(r); err != nil || r.OnDemandUSD <= 0 {
		return err
	}
	return a.Printf("the cheapest on-demand plan would cost %s USD: this plan costs %s\n",
		text.USD(r.OnDemandUSD), style.Paint(text.Good, text.Saved(r.USD, r.OnDemandUSD)))
}

// Adds formats what a runner-up would have added to the plan, in the unit of its objective.
func Adds(r apitypes.Runner, objective string) string {
	switch objective {
	case string(dag.MinimizeMakespan):
		return text.Span(text.Hours(r.Adds))
	case string(optimizer.Carbon):
		return strconv.FormatFloat(r.Adds, 'g', 3, 64) + " kg"
	case string(dag.MinimizeWeighted):
		return strconv.FormatFloat(r.Adds, 'g', 3, 64)
	}
	return text.USD(r.Adds) + " USD"
}
