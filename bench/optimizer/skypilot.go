package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// skyRow is a DAG planned by SkyPilot and by ours: the cost of each plan, including egress between regions, and the
// time of each.
type skyRow struct {
	name             string
	tasks            int
	ours, theirs     float64 // USD; 0 if there was no plan in time
	solving, planned timing
	took             timing
}

// skyTask is the resources of one task of a DAG.
type skyTask struct {
	cpus        int
	accelerator string
	count       float64
}

// skyDAG is a DAG that both can plan: on-demand, one hour for each task on any machine.
type skyDAG struct {
	name  string
	tasks []skyTask
	edges []dag.Edge
}

// skyLimit is the time SkyPilot has for a DAG: its largest takes over a minute.
const skyLimit = 3 * time.Minute

// skyDAGs are tasks of a typical mix, in chains and in random DAGs in which each task depends on one or two earlier
// ones. As in SkyPilot, a task sends the same data to all its successors.
func skyDAGs(quick bool) []skyDAG {
	kinds := []skyTask{{cpus: 8}, {accelerator: "V100", count: 1}, {cpus: 16}, {accelerator: "T4", count: 1}, {cpus: 4},
		{accelerator: "A100", count: 8}}
	var list []skyDAG
	add := func(name string, n int, seed uint64, random bool) {
		r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // reproducible, not secret
		d := skyDAG{name: fmt.Sprintf("%s of %d", name, n)}
		sent := make([]dag.GiB, n)
		for i := range n {
			d.tasks = append(d.tasks, kinds[r.IntN(len(kinds))])
			sent[i] = dag.GiB(1 + math.Floor(200*r.Float64()))
			parents := []int{i - 1}
			if random && i > 0 {
				parents = r.Perm(i)[:min(i, 1+r.IntN(2))]
			}
			for _, p := range parents {
				if p >= 0 {
					d.edges = append(d.edges, dag.Edge{From: p, To: i, Data: sent[p]})
				}
			}
		}
		list = append(list, d)
	}
	add("task", 1, 1, false)
	add("chain", 3, 2, false)
	add("random DAG", 5, 3, true)
	if !quick {
		add("chain", 10, 4, false)
		add("random DAG", 6, 5, true)
		add("random DAG", 8, 6, true)
		add("random DAG", 12, 7, true)
	}
	return list
}

// skypilot plans the DAGs with SkyPilot's Optimizer.optimize and with ours, each on the whole catalogue. For ours it
// reports two times: with finding the candidates, which SkyPilot's time includes, and of solving alone.
func skypilot(ctx context.Context, o *options, r *report) (err error) {
	if !strings.Contains("skypilot", strings.ToLower(o.peers)) {
		return nil
	}
	home, err := os.MkdirTemp("", "tradewind-bench-*")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.python, filepath.Join(o.scripts, "sky_optimizer.py"), o.data, home) //nolint:gosec // the bench's own script
	cmd.Env = append(os.Environ(), "HOME="+home)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait(), os.RemoveAll(home)) }()
	lines := bufio.NewScanner(out)
	defer r.skySummary()
	for _, d := range skyDAGs(o.quick) {
		row, err := ourPlan(ctx, &d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		body, err := json.Marshal(d.ask(skyLimit))
		if err != nil {
			return err
		}
		if _, err := in.Write(append(body, '\n')); err != nil {
			return err
		}
		if !lines.Scan() {
			return fmt.Errorf("SkyPilot exited: %w", lines.Err())
		}
		if err := row.read(&d, lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		r.sky = append(r.sky, *row)
		fmt.Fprintf(os.Stderr, "%-20s SkyPilot %s, %.4f USD; ours %s, solving %s, %.4f USD\n", d.name,
			millis(row.took.cpu), row.theirs, millis(row.planned.cpu), millis(row.solving.cpu), row.ours)
	}
	return nil
}

// ask is the DAG as input of the peer's script.
func (d *skyDAG) ask(limit time.Duration) map[string]any {
	tasks, edges := [][2]any{}, [][3]any{}
	for _, t := range d.tasks {
		name := ""
		if t.accelerator != "" {
			name = fmt.Sprintf("%s:%g", t.accelerator, t.count)
		}
		tasks = append(tasks, [2]any{t.cpus, name})
	}
	for _, e := range d.edges {
		edges = append(edges, [3]any{e.From, e.To, float64(e.Data)})
	}
	return map[string]any{"tasks": tasks, "edges": edges, "limit": limit.Seconds()}
}

func (d *skyDAG) job() *dag.Job {
	j := &dag.Job{Name: "bench", Objective: dag.MinimizeCost, Format: dag.Native, Edges: d.edges}
	for i, t := range d.tasks {
		j.Tasks = append(j.Tasks, dag.Task{
			Name: fmt.Sprintf("t%02d", i), Nodes: 1, Run: "true", Time: dag.TimeEstimate{Default: time.Hour},
			Resources: []dag.Resources{{CPUs: dag.Range{Min: float64(t.cpus)}, Accelerator: t.accelerator,
				AcceleratorCount: t.count, Market: dag.MarketOnDemand}},
		})
	}
	return j
}

func ourPlan(ctx context.Context, d *skyDAG) (*skyRow, error) {
	p, err := newPlanner()
	if err != nil {
		return nil, err
	}
	input := record.PlanInput{Spec: d.job(), Now: time.Unix(0, 0)}
	row := &skyRow{name: d.name, tasks: len(d.tasks)}
	var plan *record.Plan
	row.planned, err = measure(100*time.Millisecond, func() error {
		plan, err = p.Plan(ctx, input)
		return err
	})
	if err != nil {
		return nil, err
	}
	row.ours = plan.USD
	m, err := p.Model(input)
	if err != nil {
		return nil, err
	}
	row.solving, err = measure(100*time.Millisecond, func() error {
		_, err := optimizer.Solve(ctx, m, optimizer.Options{})
		return err
	})
	return row, err
}

// read parses SkyPilot's output and recomputes its plan's cost with our list prices, which it also read, and with
// egress between regions, which it ignores within a cloud.
func (row *skyRow) read(d *skyDAG, line []byte) error {
	var got struct {
		Plan      [][4]any
		Wall, CPU float64
	}
	if err := json.Unmarshal(line, &got); err != nil {
		return err
	}
	row.took = timing{got.Wall, got.CPU}
	if got.Plan == nil {
		return nil
	}
	c, err := catalog.Default()
	if err != nil {
		return err
	}
	moves, err := egress.Default()
	if err != nil {
		return err
	}
	var at []string
	for i, chosen := range got.Plan {
		cloud, region := fmt.Sprint(chosen[0]), fmt.Sprint(chosen[1])
		at = append(at, cloud+":"+region)
		least := math.Inf(1)
		q := catalog.Query{
			Clouds: []string{cloud}, Regions: []string{region}, InstanceType: fmt.Sprint(chosen[2]),
			Market: catalog.OnDemand, Accelerator: d.tasks[i].accelerator, AcceleratorCount: d.tasks[i].count,
		}
		if err := c.Visit(q, func(m *catalog.Match) bool {
			least = min(least, m.USDPerHour)
			return true
		}); err != nil {
			return err
		}
		row.theirs += least
	}
	usd, _, err := moves.Matrix(at)
	if err != nil {
		return err
	}
	for _, e := range d.edges {
		row.theirs += float64(e.Data) * usd[e.From][e.To]
	}
	return nil
}

func (r *report) skySummary() {
	whole, solving, least := 0.0, 0.0, math.Inf(1)
	dearer, saved, compared := 0, 0.0, 0
	for i := range r.sky {
		s := &r.sky[i]
		whole += math.Log(s.took.cpu / s.planned.cpu)
		solving += math.Log(s.took.cpu / s.solving.cpu)
		least = min(least, s.took.cpu/s.planned.cpu)
		if s.theirs > 0 {
			compared++
			saved = max(saved, 1-s.ours/s.theirs)
			if s.ours > s.theirs*(1+1e-9) {
				dearer++
			}
		}
	}
	n := float64(len(r.sky))
	if n == 0 {
		return
	}
	r.extra = append(r.extra,
		measured{"whole DAGs with the whole catalogue: geometric mean relative to ours, SkyPilot's optimizer", "1,000×",
			fmt.Sprintf("%s× with the search for candidates, %s× solving alone; minimum %s×, over %d DAGs",
				ratio(math.Exp(whole/n)), ratio(math.Exp(solving/n)), ratio(least), len(r.sky))},
		measured{"our plans more expensive than SkyPilot's, including egress between regions", "none",
			fmt.Sprintf("%d of %d; at most %.1f %% cheaper", dearer, compared, 100*saved)})
}

func (r *report) skyTable(b *strings.Builder) {
	if len(r.sky) == 0 {
		return
	}
	b.WriteString("\n## SkyPilot's optimizer\n\nThe whole catalogue, on demand, one hour for each task. The cost of its " +
		"plan is recomputed with egress between regions.\n\n" +
		"| DAG | ours, USD | SkyPilot, USD | ours, whole | ours, solving | SkyPilot |\n" +
		"| --- | --- | --- | --- | --- | --- |\n")
	for i := range r.sky {
		s := &r.sky[i]
		theirs := fmt.Sprintf("%.4f", s.theirs)
		if s.theirs == 0 {
			theirs = "no plan in time"
		}
		fmt.Fprintf(b, "| %s | %.4f | %s | %s | %s | %s (%s×) |\n", s.name, s.ours, theirs, millis(s.planned.cpu),
			millis(s.solving.cpu), millis(s.took.cpu), ratio(s.took.cpu/s.planned.cpu))
	}
}
