package planner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

const noAgent = "has no agent for arm64 machines"

// Machines for which the broker has no agent must not be planned. Their launch would be refused again and again while
// the job waits.
func TestPlanExcludesArchitecturesWithoutAgent(t *testing.T) {
	// Machines with accelerators may have any architecture; others are amd64 unless the task names another.
	const task = `tasks: {a: {run: x, time: 1h, resources: {cpus: 4, cloud: aws}}}`
	const named = `tasks: {a: {run: x, time: 1h, resources: {anyOf: [{instanceType: c8g.xlarge}, {instanceType: m5.8xlarge}]}}}`
	p, c := newPlanner(t)
	if got := archOf(t, c, plan(t, p, planinput.Input{Spec: readJob(t, task)})); got != catalog.AMD64 {
		t.Errorf("a task that names no architecture is planned on %s", got)
	}
	free := plan(t, p, planinput.Input{Spec: readJob(t, named)})
	if arch := archOf(t, c, free); arch != catalog.ARM64 || free.Notes != nil {
		t.Fatalf("%s is chosen, with the notes %q: the test proves nothing", arch, free.Notes)
	}
	opt := planner.DefaultOptions()
	opt.Archs = map[string][]string{"aws": {"amd64"}}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	limited := planner.New(c, moves, opt)
	got := plan(t, limited, planinput.Input{Spec: readJob(t, named)})
	if archOf(t, c, got) != catalog.AMD64 {
		t.Errorf("planned on %s", got.Of(0).ID)
	}
	if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, noAgent) }) {
		t.Errorf("notes %q", got.Notes)
	}
	asked := plan(t, limited, planinput.Input{Spec: readJob(t, strings.Replace(task, "cpus: 4", "cpus: 4, arch: arm64", 1))})
	if asked.Status != record.PlanInfeasible || !strings.Contains(asked.Message, noAgent) {
		t.Errorf("%s: %s", asked.Status, asked.Message)
	}
	other := plan(t, limited, planinput.Input{Spec: readJob(t, strings.Replace(task, "cloud: aws", "cloud: azure, arch: arm64", 1))})
	if other.Status == record.PlanInfeasible || other.Notes != nil {
		t.Errorf("%s on a cloud with both agents: %q", other.Message, other.Notes)
	}
}

func archOf(t *testing.T, c *catalog.Catalog, p *record.Plan) catalog.Arch {
	t.Helper()
	if p.Of(0) == nil {
		t.Fatalf("no plan: %s", p.Message)
	}
	m, err := c.Lookup(p.Of(0).ID)
	if err != nil {
		t.Fatal(err)
	}
	return m.Arch
}

func TestTimeoutBelowExpectedTimeIsNoted(t *testing.T) {
	p, _ := newPlanner(t)
	for job, noted := range map[string]bool{
		`tasks: {a: {run: x, time: 6h, timeout: 1h, resources: {instanceType: m6i.xlarge}}}`:                true,
		`tasks: {a: {run: x, time: 6h, timeout: 7h, resources: {instanceType: m6i.xlarge}}}`:                false,
		`tasks: {a: {run: x, timeout: 1m, resources: {instanceType: m6i.xlarge}}}`:                          false, // no run time is known
		`tasks: {a: {run: x, time: 1h, timeout: 1h, resources: {instanceType: t3.micro, burstable: true}}}`: false, // the run time is the timeout
	} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, job)})
		if found := slices.ContainsFunc(got.Notes, func(n string) bool {
			return strings.Contains(n, "is expected to run for 6h on m6i.xlarge, and its timeout ends it after 1h")
		}); found != noted || got.Status == record.PlanInfeasible {
			t.Errorf("%s: %s, notes %q", job, got.Message, got.Notes)
		}
	}
}
