package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/tianchi"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// placeOptions are the flags of place.
type placeOptions struct {
	data     string
	limit    command.Span
	steps    int
	seed     uint64
	solver   command.Choice
	out      string
	verify   string
	generate string
	setting  placement.Setting
	output   *command.Choice
}

func (a app) placeCommand() *cobra.Command {
	o := &placeOptions{limit: command.Span{Value: 10 * time.Second}, setting: placement.PaperSetting(),
		solver: command.NewChoice(solverAuto, solvers()...)}
	c := &cobra.Command{
		Use:   "place",
		Short: "Place containers on machines, or verify a placement",
		Long: "Places all containers (instances) on as few machines as it can within the time limit, so that no\n" +
			"machine exceeds its capacity at any time of the day and all anti-affinity rules hold. The folder\n" +
			"--data has the machines, apps, instances and rules, in the format of the Alibaba scheduling contest of\n" +
			"2018 (Tianchi). With --verify it checks an existing assignment instead, and with --generate it\n" +
			"generates a data set.\n" +
			"\n" +
			"A verifier that shares no code with the solvers checks every result. Exits with 3 if some instances\n" +
			"could not be placed, and with 1 if a constraint is violated.",
		Example: "  tradewind-lab place --data tianchi/ --time-limit 60s --out assignment.csv\n" +
			"  tradewind-lab place --data tianchi/ --verify assignment.csv -o json\n" +
			"  tradewind-lab place --generate paper/ && tradewind-lab place --data paper/ --solver flow",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.StringVar(&o.data, "data", "",
		"folder with the app_resources, machine_resources, instance_deploy and app_interference files")
	f.Var(&o.limit, "time-limit", "stop after this time with the best assignment so far")
	f.IntVar(&o.steps, "steps", 0, "stop after this number of steps instead, which makes runs reproducible")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the search and of --generate")
	f.Var(&o.solver, "solver", "solver; auto means flow if apps have priorities, otherwise pack")
	command.CompleteChoice(c, "solver", &o.solver)
	f.StringVar(&o.out, "out", "", "write instance,machine lines to this file")
	f.StringVar(&o.verify, "verify", "", "check the instance,machine lines of this file instead of placing")
	f.StringVar(&o.generate, "generate", "", "generate a data set like the paper's in this folder instead")
	f.IntVar(&o.setting.Containers, "containers", o.setting.Containers, "number of instances for --generate")
	f.IntVar(&o.setting.Machines, "machines", o.setting.Machines, "number of machines for --generate")
	f.IntVar(&o.setting.Apps, "apps", o.setting.Apps, "number of apps for --generate")
	f.Float64Var(&o.setting.AntiAffinity, "anti-affinity", o.setting.AntiAffinity,
		"share of apps with anti-affinity for --generate")
	f.Float64Var(&o.setting.Priority, "priority", o.setting.Priority,
		"share of instances with priority for --generate")
	for _, name := range []string{"data", "generate"} {
		_ = c.MarkFlagDirname(name)
	}
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if o.steps > 0 && !c.Flags().Changed("time-limit") {
			o.limit.Value = 0
		}
		return a.place(ctx, o)
	}
	return c
}

// PlaceResult is the output of `place -o json`.
type PlaceResult struct {
	Instances  int     `json:"instances"`
	Placed     int     `json:"placed"`
	Violations int     `json:"violations"` // counted by the verifier
	Machines   int     `json:"machines"`   // with at least one instance
	LowerBound int     `json:"lowerBound"` // minimum number of machines of any complete assignment
	Seconds    float64 `json:"seconds"`    // wall time until the assignment was found
}

func (a app) place(ctx context.Context, o *placeOptions) error {
	began := a.Now()
	switch {
	case o.data == "" && o.generate == "":
		return command.BadInput("usage: tradewind-lab place --data DIR", "--data must name the folder of a data set")
	case o.generate != "" && (o.data != "" || o.verify != "" || o.out != ""):
		return command.BadInput("", "--generate only generates a data set; place it with --data in another run")
	case o.verify != "" && o.out != "":
		return command.BadInput("", "--verify writes nothing; leave out --out")
	case o.steps < 0:
		return command.BadInput("", "--steps must be at least 0")
	case o.generate != "":
		return a.generatePlacement(o)
	}
	p, err := a.readPlacement(o.data)
	if err != nil {
		return err
	}
	var assignment placement.Assignment
	if o.verify != "" {
		assignment, err = readAssignment(o.verify, p)
	} else {
		assignment, err = a.solvePlacement(ctx, p, o, began)
	}
	if err != nil {
		return err
	}
	seconds := a.Now().Sub(began).Seconds()
	report, err := placement.Verify(p, assignment)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := command.WriteFile(o.out, func(w io.Writer) error {
			return tianchi.WriteAssignment(w, p, assignment)
		}); err != nil {
			return err
		}
	}
	result := PlaceResult{
		Instances: report.Instances, Placed: report.Placed, Violations: len(report.Violations),
		Machines: report.Machines, LowerBound: placement.LowerBound(p), Seconds: seconds,
	}
	if err := a.printPlacement(o, result); err != nil {
		return err
	}
	return a.checkPlacement(o, p, assignment, report)
}

// readPlacement reads a data set from a folder.
func (a app) readPlacement(dir string) (*placement.Problem, error) {
	p, err := tianchi.Read(os.DirFS(dir))
	var bad *tianchi.Error
	if errors.As(err, &bad) {
		in := *bad
		in.File = filepath.Join(dir, bad.File)
		return nil, command.Because(err, command.ExitBadInput, "docs/placement.md describes the files", "%v", &in)
	}
	if err != nil {
		return nil, command.Unreadable(dir, err)
	}
	return p, nil
}

func readAssignment(path string, p *placement.Problem) (placement.Assignment, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, command.Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	assignment, err := tianchi.ReadAssignment(path, f, p)
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput,
			"each line is an instance and its machine, comma-separated", "%v", err)
	}
	return assignment, nil
}

// checkPlacement returns an error if an assignment is incomplete or violates constraints.
func (a app) checkPlacement(o *placeOptions, p *placement.Problem, assignment placement.Assignment,
	r *placement.Report) error {
	const shown = 5
	if n := len(r.Violations); n > 0 {
		var lines []string
		for _, v := range r.Violations[:min(n, shown)] {
			lines = append(lines, text.Clean(v.Machine+": "+string(v.Kind)+": "+v.Detail))
		}
		if n > shown {
			lines = append(lines, "and "+text.Thousands(n-shown)+" more")
		}
		return command.Failed("", "%s:\n  %s", text.Count(n, "violation"), strings.Join(lines, "\n  "))
	}
	missing := r.Instances - r.Placed
	if missing == 0 {
		return nil
	}
	first := ""
	for i, m := range assignment {
		if m == placement.Unplaced {
			first = p.Instances[i].Name
			break
		}
	}
	if o.verify != "" {
		return command.Failed(
			"",
			"%s: %s without a machine, the first is %s",
			o.verify,
			text.Count(missing, "instance"),
			first,
		)
	}
	return &command.Failure{Code: command.ExitInfeasible,
		Text: "could not place " + text.Count(missing, "instance") + ", the first is " + text.Clean(first),
		Hint: "add machines or remove rules; more time with --time-limit may help, too"}
}

func (a app) printPlacement(o *placeOptions, r PlaceResult) error {
	if o.output.JSON() {
		return a.PrintJSON(r)
	}
	t := &text.Table{Columns: []text.Column{
		{Name: "INSTANCES", Right: true}, {Name: "PLACED", Right: true}, {Name: "VIOLATIONS", Right: true},
		{Name: "MACHINES", Right: true}, {Name: "LOWER BOUND", Right: true}, {Name: "TIME", Right: true},
	}}
	t.Row(text.Thousands(r.Instances), text.Thousands(r.Placed), text.Thousands(r.Violations),
		text.Thousands(r.Machines),
		text.Thousands(r.LowerBound), text.Span(time.Duration(r.Seconds*float64(time.Second))))
	return a.PrintTable(t)
}
