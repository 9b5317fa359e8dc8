package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A job that failed before its deadline has not met it, and its logs tab opens with the failed task.
func TestFailedJobShowsFailedTask(t *testing.T) {
	w := deployed(t)
	spec := apitest.Wide("trouble", 1)
	spec.Deadline = 10 * time.Hour
	job := w.Submit(spec)
	w.Node(job, "split", 0).Start().Print("split is done").Succeed()
	w.Node(job, "project-0000", 0).Start().Print("cannot go on").
		Report(wire.Report{Event: wire.Failed, ExitCode: 7, Phase: wire.PhaseRun})
	b := open(t, w).visit("#/jobs").until(`document.querySelector('[data-job]').dataset.state === 'failed'`)
	if got := eval[string](b, `document.querySelector('[data-label="Deadline"]').textContent`); got != "–" {
		t.Errorf("the list shows the deadline as %q", got)
	}
	b.visit("#/jobs/" + job + "/logs").until(`document.querySelector('.log').textContent.includes('cannot go on')`)
}

// replicas is a job with a service of two replicas, one of which is ready.
func replicas(w *apitest.World) string {
	spec := &dag.Job{Name: "chat", Objective: dag.MinimizeCost, Format: dag.Native}
	for _, name := range []string{"web.0", "web.1"} {
		spec.Tasks = append(spec.Tasks, dag.Task{
			Name: name, Run: "./serve", Nodes: 1, Resources: []dag.Resources{{}},
			Service: &dag.Service{Of: "web", Port: 8080},
		})
	}
	job := w.Submit(spec)
	w.Node(job, "web.0", 0).Start().Report(wire.Report{Event: wire.Ready, Port: 8080})
	w.Node(job, "web.1", 0).Start()
	return job
}

func TestServiceShowsReadyReplicas(t *testing.T) {
	w := deployed(t)
	b := open(t, w).visit("#/jobs/" + replicas(w)).
		until(`document.querySelector('.tiles .value').textContent === '1 of 2 ready'`)
	tiles := eval[string](b, `document.querySelector('.tiles').innerText`)
	for _, part := range []string{", including one hour of its services", "its services run until it is cancelled"} {
		if !strings.Contains(tiles, part) {
			t.Errorf("its figures lack %q: %s", part, tiles)
		}
	}
	if strings.Contains(tiles, "expects") {
		t.Errorf("its figures expect an end: %s", tiles)
	}
}

func TestServicePlanHasNoEnd(t *testing.T) {
	b := open(t, planning(t)).visit("#/plan").seen(`.source`)
	b.write("apiVersion: tradewind/v1\nname: chat\ntasks:\n  web: {run: ./serve, service: {replicas: 2, port: 8080}}\n")
	b.click(`button[type="submit"]`).counted(`.plan-table > tbody > tr`, 2)
	said := eval[string](b, `document.querySelector('main').innerText`)
	for _, part := range []string{"no end", "including one hour of its services", "services run until the job is cancelled"} {
		if !strings.Contains(said, part) {
			t.Errorf("the page lacks %q: %s", part, said)
		}
	}
	if strings.Contains(said, "Cost against time") {
		t.Error("the page offers deadlines for a service, which has none")
	}
}

func TestFiguresAgreeAndShowCents(t *testing.T) {
	b := open(t, deployed(t)).visit("")
	wrong := eval[[]string](b, `(async () => {
		const { Summary } = await import('/assets/js/summary.js');
		const { share } = await import('/assets/js/table.js');
		const { usd } = await import('/assets/js/format.js');
		const wrongs = [];
		const expect = (got, want) => got === want || wrongs.push(got + ', want ' + want);
		const summary = new Summary();
		const view = { state: 'running', tasks: 3, succeeded: 1, submitted: '2026-05-20T09:00:00Z', spentUSD: 0, plannedUSD: 1, onDemandUSD: 2 };
		const tasks = ['succeeded', 'succeeded', 'running'].map((state) => ({ state }));
		summary.show({ view, tasks, plans: [], now: () => Date.parse('2026-05-20T10:00:00Z') });
		expect(summary.done.value.textContent, '2 of 3');
		expect(summary.done.note.textContent, '2 succeeded · 1 running');
		expect(share(0.4, 0, '', usd), '$0.40');
		expect(share(0.5, 0, 'in use'), '0.5 in use');
		expect(share(12, 0, 'running'), '12 running');
		expect(share(1.2, 500, '', usd).textContent, '$1.20 of $500.00');
		const { distinct } = await import('/assets/js/chart.js');
		const { amount } = await import('/assets/js/format.js');
		const { fitting } = await import('/assets/js/span.js');
		expect([0, 0.03, 0.06, 0.09, 0.15000000000000002, 14.5].map(amount).join(' '), '0 0.03 0.06 0.09 0.15 14.5');
		expect(distinct(['$0', '<$0.0001', '<$0.0001', '$0.0001', '$0.0001']).join(' '), '$0 <$0.0001  $0.0001 ');
		const from = Date.parse('2026-05-20T10:00:01Z'), quarter = 15000;
		const named = (end) => fitting([1, 2, 3].map((k) => from + k * quarter), from, from + end * quarter, 300).map(Boolean).join(' ');
		expect(named(3), 'true true false');
		expect(named(4), 'true true true');
		return wrongs;
	})()`)
	for _, w := range wrong {
		t.Error(w)
	}
}

// The card of the cost warns if the forecast or the bill is above the plan or the budget; then it shows no saving, even if on-demand
// machines would cost more.
func TestCostCardWarnsAboveThePlan(t *testing.T) {
	b := open(t, deployed(t)).visit("")
	for _, c := range []struct{ job, want string }{
		{`spentUSD: 1.64, forecastUSD: 1.64`, "! 64% above the plan|forecast $1.64 in the end|planned $1.00|on demand $2.00"},
		{`spentUSD: 0.3, forecastUSD: 1.2`, "! 20% above the plan|forecast $1.20 in the end|planned $1.00|on demand $2.00"},
		{`spentUSD: 0.3, forecastUSD: 0.9, budgetUSD: 0.6`,
			"! 50% above the budget|forecast $0.90 in the end|budget $0.60, 50% used|planned $1.00|on demand $2.00"},
		{`spentUSD: 0.3, forecastUSD: 1, budgetUSD: 3`,
			"forecast $1.00 in the end|budget $3.00, 10% used|planned $1.00|50% less than on demand, $2.00"},
		{`state: 'succeeded', spentUSD: 1.64`, "! 64% above the plan|planned $1.00|on demand $2.00"},
	} {
		got := eval[string](b, `(async () => {
			const { Summary } = await import('/assets/js/summary.js');
			const summary = new Summary();
			summary.showCost({ state: 'running', plannedUSD: 1, onDemandUSD: 2, `+c.job+` }, false);
			return [...summary.cost.note.children].map((l) => (l.classList.contains('over') ? '! ' : '') + l.textContent).join('|');
		})()`)
		if got != c.want {
			t.Errorf("%s: the card says %q, want %q", c.job, got, c.want)
		}
	}
}

func TestFiguresDoNotOverlapOnPhone(t *testing.T) {
	w := deployed(t)
	w.Submit(apitest.Training())
	b := open(t, w).as(390, 844, "light").visit("#/jobs").seen(`[data-job]`)
	wide := eval[[]string](b, `(() => {
		document.querySelector('[data-label="On demand"]').textContent = '$1,234.56 (−34%)';
		return [...document.querySelectorAll('.cards td')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent);
	})()`)
	if len(wide) > 0 {
		t.Errorf("beyond their cells are %q", wide)
	}
}
