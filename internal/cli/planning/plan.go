package planning

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
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
	output   command.Choice

	frontier  bool
	points    int
	timeLimit command.Span

	leastCarbon bool
	carbonCap   *float64
}

// Plan is the command plan.
func Plan(in *command.App, enabled clouds.EnabledOn) *cobra.Command {
	a := app{in}
	o := &planOptions{}
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Say where a DAG would run, what it would cost and how long it would take",
		Long: "Plans the DAG in FILE on the catalogue's list prices and runs nothing; no broker is needed. - is\n" +
			"standard input. Plans are made on the clouds of the broker that works on the state folder, else on those\n" +
			"that `tradewind cloud add` has added, else on all; --cloud names others. Exits with 3 when no plan keeps\n" +
			"the deadline and the budget, or nothing on offer suits a task.",
		Example: "  tradewind plan examples/train-infer.yaml --explain\n" +
			"  tradewind plan job.yaml --objective makespan --budget 20 --cloud aws,gcp\n" +
			"  tradewind plan job.yaml -o json | jq .usd\n" +
			"  tradewind plan job.yaml --frontier                        # what each deadline would cost\n" +
			"  tradewind plan job.yaml --frontier -o svg > frontier.svg  # the same, drawn\n" +
			"  tradewind plan job.yaml --model-out model.json && tradewind-lab optimize model.json",
		Args: command.Args(1, 1), ValidArgsFunction: command.CompleteFile,
	}
	o.over = jobfile.OverrideFlags(c, false)
	o.limits = jobfile.LimitFlags(c)
	command.CatalogFlag(c, &o.catalog)
	f := c.Flags()
	f.StringSliceVar(&o.clouds, "cloud", nil, "only these clouds: aws,gcp")
	a.StateFlag(c, &o.state)
	f.StringVar(&o.modelOut, "model-out", "", "write the optimizer's model to this file as well")
	f.BoolVar(&o.explain, "explain", false, "show the runners-up of each task as well")
	f.BoolVar(&o.frontier, "frontier", false, "show what each deadline would cost, instead of one plan")
	f.IntVar(&o.points, "points", 40, "the most plans that --frontier looks for, 0 is all")
	f.Var(&o.timeLimit, "time-limit", "time that --frontier takes at most (default 10s)")
	f.BoolVar(&o.leastCarbon, "least-carbon", false, "minimise the machines' emissions, instead of what the file says")
	limit := f.Float64("carbon-cap", 0, "the most the machines may emit, kg CO2eq")
	o.output = command.NewChoice("table", "table", "json", frontierSVG)
	f.VarP(&o.output, "output", "o", "form of the output; svg is a plot of the frontier")
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

// check refuses flags that do not go together.
func (o *planOptions) check() error {
	switch {
	case o.output.Value == frontierSVG && !o.frontier:
		return command.BadInput("add --frontier", "-o svg is a plot of the frontier")
	case o.frontier && (o.modelOut != "" || o.explain):
		return command.BadInput("", "--frontier shows many plans: --model-out and --explain are for one")
	case o.leastCarbon && o.frontier:
		return command.BadInput("--carbon-cap goes with it", "--frontier is of time and cost, not of --least-carbon")
	case o.carbonCap != nil && !(*o.carbonCap >= 0 && *o.carbonCap <= optimizer.MaxValue):
		return command.BadInput("", "--carbon-cap: %v is not an amount of at least 0", *o.carbonCap)
	case o.points < 0:
		return command.BadInput("", "--points: %d is below 0", o.points)
	}
	return nil
}

// PlanResult is what `plan -o json` prints.
type PlanResult struct {
	Name          string   `json:"name"`
	Objective     string   `json:"objective"` // cost, makespan or carbon
	DeadlineHours *float64 `json:"deadlineHours"`
	BudgetUSD     *float64 `json:"budgetUSD"`
	Status        string   `json:"status"` // optimal, feasible or infeasible
	Message       string   `json:"message,omitempty"`
	USD           float64  `json:"usd"`
	Hours         float64  `json:"hours"`
	Bound         float64  `json:"bound"`           // in the objective's unit
	TransferUSD   float64  `json:"transferUSD"`     // of USD, what moving data costs
	KeepUSD       float64  `json:"keepUSDPerMonth"` // beside USD: keeping what the tasks leave, a month
	OnDemandUSD   float64  `json:"onDemandUSD"`
	// ServicesUSDPerHour is what an hour of all services costs; of USD, one hour of each replica is.
	ServicesUSDPerHour float64    `json:"servicesUSDPerHour,omitempty"`
	KgCO2              float64    `json:"kgCO2,omitempty"` // what the machines emit, where all their grids are known
	Millis             float64    `json:"millis"`          // of solving
	Clouds             []string   `json:"clouds"`          // that it was made on
	Tasks              []PlanTask `json:"tasks"`
	Placement          []string   `json:"placement,omitempty"` // its rules of placement, with the tasks that each is about
	Notes              []string   `json:"notes,omitempty"`     // those that do not hold where the plan has its tasks
	Warnings           []string   `json:"warnings,omitempty"`
}

// PlanTask is where a plan runs a task.
type PlanTask struct {
	Name         string   `json:"name"`
	Service      string   `json:"service,omitempty"` // that it is a replica of
	After        []string `json:"after,omitempty"`
	Offer        string   `json:"offer"`
	Cloud        string   `json:"cloud"`
	Region       string   `json:"region"`
	Zone         string   `json:"zone,omitempty"`
	InstanceType string   `json:"instanceType"`
	Accelerator  string   `json:"accelerator,omitempty"` // V100:8
	Market       string   `json:"market"`                // spot, on-demand, reserved or committed
	// Reservation is the capacity that the account has already and that it runs on; Takes is how much of a commitment.
	Reservation string            `json:"reservation,omitempty"`
	Takes       apitypes.Amount   `json:"takes,omitzero"`
	Nodes       int               `json:"nodes"`
	USDPerHour  float64           `json:"usdPerHour"`     // of one machine
	Hours       float64           `json:"hours"`          // expected
	Time        *apitypes.Figure  `json:"time,omitempty"` // how long it is taken to run there, and where that is from
	USD         float64           `json:"usd"`            // expected
	Runners     []apitypes.Runner `json:"runners,omitempty"`
}

func (a app) plan(ctx context.Context, path string, o *planOptions) error {
	f, err := o.over.Read(a.App, path)
	if err != nil {
		return err
	}
	if err := f.Settle(ctx, a.Lookup("HOME"), o.limits.Options(nil)); err != nil {
		return err
	}
	p, c, err := newPlannerOn(o.on, o.catalog, o.clouds, o.carbon)
	if err != nil {
		return err
	}
	a.Tell("%s", o.on.Says(c.Clouds()))
	f.Spec = history.Fill(f.Spec, o.on.Learned(ctx, f.Spec.Name))
	in := inputOf(f.Spec, a.Now())
	if o.frontier {
		return a.frontier(ctx, p, c, in, o)
	}
	if o.modelOut != "" {
		if err := a.writeModel(p, in, o.modelOut); errors.Is(err, planner.ErrInfeasible) {
			return cmp.Or(NoOffer(c, f.Spec, o.clouds), infeasible(err))
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
	if o.leastCarbon {
		r.Objective = string(optimizer.Carbon)
	}
	var verdict error
	if plan.Status == record.PlanInfeasible {
		if verdict = NoOffer(c, f.Spec, o.clouds); verdict == nil {
			verdict = &command.Failure{Code: command.ExitInfeasible, Text: "infeasible: " + plan.Message,
				Hint: o.relaxed(ctx, p, in, r)}
		}
	} else {
		r.KgCO2 = p.Emissions(in, plan)
	}
	return errors.Join(a.printPlan(r, o), verdict)
}

// inputOf is what a job is planned by that nothing has run of.
func inputOf(spec *dag.Job, now time.Time) record.PlanInput {
	in := record.PlanInput{Spec: spec, Now: now}
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

// carbon sets what the flags say of emissions.
func (o *planOptions) carbon(opt *planner.Options) {
	opt.LeastCarbon, opt.CarbonCapKg = o.leastCarbon, o.carbonCap
}

// newPlanner makes a planner on a catalogue, of some clouds only where they are named.
func newPlanner(dir string, named []string,
	tune ...func(*planner.Options)) (*planner.Planner, *catalog.Catalog, error) {
	return newPlannerOn(clouds.Enabled{}, dir, named, tune...)
}

// newPlannerOn is newPlanner on what may be bought.
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
	opt.Clouds, opt.Without = named, on.Without
	for _, t := range tune {
		t(&opt)
	}
	return planner.New(c, moves, opt), c, nil
}

func (a app) writeModel(p *planner.Planner, in record.PlanInput, path string) error {
	model, err := p.Model(in)
	if err != nil {
		return err
	}
	if model.Edges == nil {
		model.Edges = []optimizer.Edge{} // not null: the form has a list
	}
	if path == command.Stdin {
		return json.NewEncoder(a.Out).Encode(model)
	}
	return command.WriteFile(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(model) })
}

// writeFile writes a file that the user named.
func infeasible(err error) error { return command.Because(err, command.ExitInfeasible, "", "%v", err) }

// planResult puts a plan into the form that programs read.
func planResult(in record.PlanInput, p *record.Plan) *PlanResult {
	spec := in.Spec
	r := &PlanResult{
		Name: spec.Name, Objective: string(spec.Objective), DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD,
		Status: p.Status, Message: p.Message, USD: p.USD, Hours: p.Hours, Bound: p.Bound, OnDemandUSD: p.OnDemandUSD,
		KeepUSD: p.KeepUSD, Millis: p.Millis, Tasks: []PlanTask{}, Warnings: spec.Warnings,
		Placement: rulesOf(spec), Notes: p.Notes,
	}
	if p.Status == record.PlanInfeasible {
		return r
	}
	g := spec.Graph()
	for i := range spec.Tasks {
		t := PlanTask{Name: spec.Tasks[i].Name, Nodes: max(spec.Tasks[i].Nodes, 1)}
		for _, parent := range g.Parents(i) {
			t.After = append(t.After, spec.Tasks[parent].Name)
		}
		if c := p.Of(i); c != nil {
			t.place(c)
			t.Hours, t.USD, t.Runners = p.TaskHours[i], p.TaskUSD[i], p.Runners[i]
			f := history.FigureOf(&spec.Tasks[i], c.Offer)
			t.Time = &f
		}
		r.Tasks = append(r.Tasks, t)
		r.TransferUSD -= t.USD
	}
	r.serves(spec, p)
	// The sum of many numbers is off by some bits; less than a millionth of it is not there.
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

// printPlan shows a plan, as far as there is one.
func (a app) printPlan(r *PlanResult, o *planOptions) error {
	switch {
	case o.modelOut == command.Stdin:
		return nil // standard output is taken
	case o.output.Value == "json":
		return a.PrintJSON(r)
	}
	a.Warn(r.Warnings)
	a.Warn(r.Notes)
	if r.Status == record.PlanInfeasible {
		return nil
	}
	for _, line := range surprises(r.Tasks) {
		a.Tell("%s", line)
	}
	return a.planTable(r, o.explain)
}

// relax says which bounds there are to give up.
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

// planTable shows a plan to a person.
func (a app) planTable(r *PlanResult, explain bool) error {
	t := text.Table{Columns: []text.Column{
		{Name: "TASK", Flexible: true}, {Name: "OFFER", Flexible: true, Fit: text.Place}, {Name: "MARKET", Optional: 4},
		{Name: "NODES", Right: true, Optional: 3}, {Name: "USD/H", Right: true, Optional: 2},
		{Name: "HOURS", Right: true, Optional: 1}, {Name: "FROM", Optional: 5}, {Name: "USD", Right: true},
		{Name: "WOULD ADD", Right: true},
	}}
	nodes := false
	for i := range r.Tasks {
		nodes = nodes || r.Tasks[i].Nodes > 1
	}
	froms := timesFrom(r.Tasks)
	for i := range r.Tasks {
		task := &r.Tasks[i]
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
		if explain {
			t.Rows = append(t.Rows, runnerRows(task, r.Objective)...)
		}
	}
	if err := a.PrintTable(&t); err != nil {
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

// withoutMarket is an offer's ID without the market, which has a column of its own.
func withoutMarket(t *PlanTask) string {
	id := text.Clean(t.Offer)
	if n := len(id) - len(t.Market) - 1; n > 0 && id[n:] == "/"+t.Market {
		return id[:n]
	}
	return id
}

// runnerRows are the runners-up of a task, with what each would add to the plan.
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

// planTotals is what holds of the plan as a whole.
func (a app) planTotals(r *PlanResult) error {
	style := a.Style(a.Out)
	proof := "proven optimal"
	if r.Status != "optimal" {
		unit := map[string]string{string(dag.MinimizeMakespan): " h", string(optimizer.Carbon): " kg"}[r.Objective]
		if unit == "" {
			unit = " USD"
		}
		proof = fmt.Sprintf("no plan is better than %.4g%s", r.Bound, unit)
	}
	line := fmt.Sprintf("%s USD in %s (%s, in %s)", text.USD(r.USD), text.Span(text.Hours(r.Hours)), proof,
		text.Span(text.Hours(r.Millis/3.6e6)))
	if err := a.Printf("\n%s: %s\n", style.Paint(text.Strong, "plan"), line); err != nil {
		return err
	}
	if r.TransferUSD > 0 {
		if err := a.Printf("      %s USD of it for moving data\n", text.USD(r.TransferUSD)); err != nil {
			return err
		}
	}
	if r.KeepUSD > 0 {
		if err := a.Printf("      keeping what it leaves: %s USD a month\n", text.USD(r.KeepUSD)); err != nil {
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
	return a.Printf("on demand, at its cheapest, it would cost %s USD: the plan costs %s\n",
		text.USD(r.OnDemandUSD), style.Paint(text.Good, text.Saved(r.USD, r.OnDemandUSD)))
}

// Adds is what a runner-up would have added to the plan, in the unit of its objective.
func Adds(r apitypes.Runner, objective string) string {
	switch objective {
	case string(dag.MinimizeMakespan):
		return text.Span(text.Hours(r.Adds))
	case string(optimizer.Carbon):
		return strconv.FormatFloat(r.Adds, 'g', 3, 64) + " kg"
	}
	return text.USD(r.Adds) + " USD"
}
