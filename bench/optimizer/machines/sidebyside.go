package machines

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// sideRegion is the region of the comparison: an AWS Batch compute environment has one.
const sideRegion = "us-east-1"

// service is a way to run a workflow, with its plan for a model that has no deadline.
type service struct {
	name string
	plan func(*shared.Model) *shared.Plan
}

// side is a market with the services to compare in it.
type side struct {
	market   string
	services []service
}

// sides returns the compared services. Batch's instances join their cluster when Docker is ready.
func sides(dockerHours float64, types map[string]kind) []side {
	onBatch := func(name, strategy string, keepHours float64) service {
		return service{name, func(m *shared.Model) *shared.Plan {
			return (&batch{strategy, keepHours}).plan(m, dockerHours, types)
		}}
	}
	heft := service{"HEFT", Baseline}
	clusters := service{"SkyPilot, a cluster for each task", skyClusters}
	return []side{
		{"on-demand", []service{
			onBatch("Batch, "+bestFit, bestFit, 0),
			onBatch("Batch, "+bestFitProgressive, bestFitProgressive, 0),
			onBatch("the same, scale-down delay of 20 min", bestFitProgressive, 20.0/60),
			clusters, {fmt.Sprintf("SkyPilot, pool of %d", skyWorkers), skyPool}, heft,
		}},
		{"spot", []service{
			onBatch("Batch, "+spotCapacityOptimized, spotCapacityOptimized, 0),
			onBatch("Batch, "+spotPriceCapacityOptimized, spotPriceCapacityOptimized, 0), clusters, heft,
		}},
	}
}

// SideBySide returns tables of the cost and time of the workflows by AWS Batch, SkyPilot, HEFT and ours, in markdown.
func SideBySide(ctx context.Context, o *Options) (string, error) {
	offers, err := ReadOffers(o.Data, Filter{Spot: true})
	if err != nil {
		return "", err
	}
	types, err := readKinds(o.Data, sideRegion)
	if err != nil {
		return "", err
	}
	docker, err := medianBoot(o.Data, "aws", "docker_ready_s")
	if err != nil {
		return "", err
	}
	workflows, err := ReadWorkflows(o.Data, o.Only)
	if err != nil {
		return "", err
	}
	offers = offers.In("aws:"+sideRegion).AtLeast(2, 4)
	var b strings.Builder
	fmt.Fprintf(&b, strings.ReplaceAll(sideNotes, `"`, "`"), docker)
	for _, s := range sides(docker/3600, types) {
		some := *offers
		some.Machines = slices.DeleteFunc(slices.Clone(offers.Machines), func(k shared.Machine) bool {
			name, market := filepath.Split(k.ID)
			return market != s.market || !types[filepath.Base(name)].amd64
		})
		if err := s.write(ctx, &b, &some, workflows); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// sideNotes says what is compared; its argument is the time until Docker is ready, in seconds. Quotes stand for
// backticks.
const sideNotes = `Each workflow of "../shared/data/workflows" on the amd64 machines of AWS us-east-1 that have at least
2 vCPUs and 4 GiB and are not burstable; a task holds one vCPU and 2 GiB. Speeds and boot times are measured, prices are
the catalogue's, and one judge counts all costs with the billing of AWS (60 s, then by the second). All are models,
without failures and preemptions, and without the cost of a control plane. "make bench-services".

- **Batch**: one job queue with maxvCpus 256 and the default types (m6i, c6i, r6i, c7i); array jobs with dependencies
  from member to member. Jobs run when Docker is ready (%.0f s after the request, the median). The documentation does
  not say how often Batch looks at its queue (here: once a minute), which of several sizes with the same price per vCPU
  it requests (here: the largest that the waiting tasks fill), or which of several spot types that are interrupted
  equally rarely (here: the one of the median price; but only c6i.2xlarge is below 5 %%, so both strategies take it).
- **SkyPilot**: the cheapest type of its default families, ready 73 s after the request. It has no DAGs; here a task is
  submitted when its parents have ended. A pool's worker runs one job at a time.
- **HEFT**: the cheapest of 30 types and 20 numbers of identical machines.
- **Ours**: the plan of the shared form, over all families. Tasks run from the first line of the start script (33 s
  after the request, the median); the agent's own start is not counted. Relative cost and time are geometric means over
  the workflows; ours is the cheapest plan without a deadline, which is slow, so the fourth column is the fair one: the
  cheapest plan that ends at most a second after theirs. The sources of all rules are in "bench/optimizer/machines".

`

// sum collects the ratios of one service.
type sum struct{ usd, hours, same, worst float64 }

// write appends the tables of a market: first the means, then the workflows.
func (s *side) write(ctx context.Context, b *strings.Builder, offers *Offers, workflows []Workflow) error {
	rows := &strings.Builder{}
	sums := make([]sum, len(s.services))
	for i := range workflows {
		if err := s.row(ctx, rows, Model(&workflows[i], offers, 0), workflows[i].Name, sums); err != nil {
			return fmt.Errorf("%s, %s: %w", workflows[i].Name, s.market, err)
		}
	}
	fmt.Fprintf(b, "### %s\n\n| by | cost, relative to ours | time, relative to ours | our cost within the same time, "+
		"relative to theirs | highest |\n|---|---:|---:|---:|---:|\n", strings.ToUpper(s.market[:1])+s.market[1:])
	mean := func(logs float64) float64 { return math.Exp(logs / float64(len(workflows))) }
	for i, x := range sums {
		fmt.Fprintf(b, "| %s | %.2f | %.2f | %.2f | %.2f |\n", s.services[i].name, mean(x.usd), mean(x.hours),
			mean(x.same), x.worst)
	}
	b.WriteString("\n| workflow | tasks |")
	for _, v := range s.services {
		fmt.Fprintf(b, " %s |", v.name)
	}
	fmt.Fprintf(b, " ours |\n|---|---:|%s---:|\n%s\n", strings.Repeat("---:|", len(s.services)), rows.String())
	return nil
}

// row appends the cost and time of a workflow by each service, and adds their ratios to ours.
func (s *side) row(ctx context.Context, b *strings.Builder, m *shared.Model, name string, sums []sum) error {
	ours, err := solved(ctx, m)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "| %s | %d |", name, len(m.Tasks))
	for i, v := range s.services {
		usd, hours, err := theirs(m, v.plan)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		limited := *m
		deadline := hours + 1.0/3600 // so that the rounding of their times does not decide
		limited.DeadlineHours = &deadline
		same, err := solved(ctx, &limited)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		x := &sums[i]
		x.usd += math.Log(usd / ours.USD)
		x.hours += math.Log(hours / ours.Hours)
		x.same += math.Log(same.USD / usd)
		x.worst = max(x.worst, same.USD/usd)
		fmt.Fprintf(b, " %s |", costTime(usd, hours))
	}
	fmt.Fprintf(b, " %s |\n", costTime(ours.USD, ours.Hours))
	return nil
}

func costTime(usd, hours float64) string { return fmt.Sprintf("%.4f USD, %.1f min", usd, hours*60) }

// theirs judges the plan of a service, which may have any number of instances.
func theirs(m *shared.Model, plan func(*shared.Model) *shared.Plan) (usd, hours float64, err error) {
	unlimited := *m
	unlimited.Machines = slices.Clone(m.Machines)
	for i := range unlimited.Machines {
		unlimited.Machines[i].Most = shared.MaxMost
	}
	p := plan(&unlimited)
	if p == nil {
		return 0, 0, fmt.Errorf("no plan")
	}
	return judge.Check(&unlimited, p, 1e-9)
}

// solved is our plan, as judged.
func solved(ctx context.Context, m *shared.Model) (*shared.Plan, error) {
	s, err := shared.Solve(ctx, m, shared.Options{})
	if err != nil {
		return nil, err
	}
	if s.Plan == nil {
		return nil, fmt.Errorf("%s: %s", s.Status, s.Message)
	}
	_, _, err = judge.Check(m, s.Plan, 0)
	return s.Plan, err
}

// medianBoot is the median of a column of the measured boots of a cloud, in seconds.
func medianBoot(data, cloud, column string) (float64, error) {
	var all []float64
	err := eachRow(filepath.Join(data, "machines", "boot.csv.gz"), func(r map[string]string) {
		if s := number(r[column]); s > 0 && r["cloud"] == cloud {
			all = append(all, s)
		}
	})
	if err != nil || len(all) == 0 {
		return 0, fmt.Errorf("no %s of %s: %w", column, cloud, err)
	}
	return medianOf(all), nil
}
