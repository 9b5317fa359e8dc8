package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/web"
)

// planning is a World that plans with the real catalogue.
func planning(t *testing.T) *apitest.World {
	t.Helper()
	h, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	p := planner.New(c, moves, planner.DefaultOptions())
	return apitest.New(t, func(cfg *api.Config) {
		now := cfg.Now
		input := func(spec *dag.Job) planinput.Input {
			in := planinput.Input{Spec: spec, Now: now(), Tasks: make([]*planinput.Facts, len(spec.Tasks))}
			if spec.Deadline > 0 {
				h := spec.Deadline.Hours()
				in.DeadlineHours = &h
			}
			return in
		}
		cfg.Dashboard = h
		cfg.Plan = func(ctx context.Context, spec *dag.Job) (*record.Plan, error) { return p.Plan(ctx, input(spec)) }
		cfg.Frontier = func(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error) {
			front, err := p.Frontier(ctx, input(spec), optimizer.FrontierOptions{MaxPoints: points, PointWork: 1e8})
			if err != nil {
				return apitypes.FrontierView{}, err
			}
			return host.ViewFront(front), nil
		}
		cfg.Clouds = clouds
	})
}

// clouds reports clouds in which one requirement is missing.
func clouds(context.Context) (apitypes.CloudReports, error) {
	return apitypes.CloudReports{Clouds: []apitypes.CloudReport{
		{Name: "aws", Identity: "arn:aws:iam::123456789012:role/tradewind", Account: "123456789012", Machines: 14,
			Regions: []string{"us-east-1", "us-east-2", "us-west-2"}, Missing: []apitypes.CloudLack{},
			Quotas: []apitypes.CloudQuota{{Name: "Running On-Demand P instances, vCPUs", Region: "us-east-1", Limit: 192, Used: 96},
				{Name: "All Standard Spot Instance Requests, vCPUs", Region: "us-east-2", Limit: 640, Used: 640}}},
		{Name: "gcp", Identity: "broker@lab.iam.gserviceaccount.com", Account: "lab", Machines: 3,
			Regions: []string{"us-central1"}, Missing: []apitypes.CloudLack{{What: "no quota for V100 in us-central1",
				Mend: "gcloud alpha services quota update --consumer=projects/lab"}},
			Quotas: []apitypes.CloudQuota{{Name: "NVIDIA V100", Region: "us-central1", Limit: 0}}},
		{Name: "azure", Missing: []apitypes.CloudLack{{What: "AADSTS7000222: the client secret has expired", Fatal: true,
			Mend: "az ad sp credential reset --id tradewind"}}},
		{Name: "lambda", Machines: 0, Played: true, Missing: []apitypes.CloudLack{}},
	}}, nil
}

// logBytes is an expression for the size of the log of task train.
func logBytes(job string) string {
	return `import('/assets/js/api.js').then(({ request }) => request('/v1/jobs/` + job +
		`/tasks/train/logs')).then((r) => r.arrayBuffer()).then((a) => a.byteLength)`
}

// write puts a file into the page.
func (b *browser) write(text string) *browser {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { const t = document.querySelector('.source'); t.value = %q; return t.dispatchEvent(new Event('input', { bubbles: true })); })()`, text))
	return b
}

const pipeline = `apiVersion: tradewind/v1
name: reads-to-variants
deadline: 12h
tasks:
  prepare:
    run: ./prepare
    resources: {cpus: 4, memory: 16GiB}
    time: 30m
  align:
    run: ./align
    after: [prepare]
    resources: {cpus: 16, memory: 64GiB}
    time: {default: 4h}
    checkpoint: {path: ckpt, every: 10m}
  train:
    run: ./train
    after: [prepare]
    resources: {accelerators: "V100:1"}
    time: 3h
    checkpoint: {path: ckpt, every: 10m}
  report:
    run: ./report
    after: [align, train]
    time: 20m
`

func TestPlanChooseFromFrontierAndSubmit(t *testing.T) {
	w := planning(t)
	b := open(t, w).visit("#/plan").seen(`.source`)
	b.allowed = []string{"422"}
	b.write(strings.Replace(pipeline, "time: 30m", "time: soon", 1)).click(`button[type="submit"]`)
	b.until(`document.querySelector('.warning')?.innerText.includes('line 8')`)
	if bad := eval[string](b, `document.querySelector('.line-numbers .bad').textContent`); bad != "8" {
		t.Errorf("the line that is marked is %s", bad)
	}
	b.write(pipeline).click(`button[type="submit"]`).counted(`.plan-table > tbody > tr`, 4)
	b.until(`document.querySelectorAll('[data-point]').length >= 2`)
	dear := eval[string](b, `document.querySelector('.tiles .value').innerText`)
	b.click(`[data-point="0"]`).
		until(`document.querySelector('.tiles .value')?.innerText !== ` + fmt.Sprintf("%q", dear) + ` && document.querySelector('#plan-deadline').value !== ''`)
	chosen := eval[string](b, `document.querySelector('#plan-deadline').value`)
	b.until(`!document.querySelector('.solid.good').hidden`).click(`.solid.good`).
		until(`location.hash.startsWith('#/jobs/reads-to-variants')`)
	l, err := time.ParseDuration(chosen)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := w.Broker.Views.Jobs(t.Context(), "", 10)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	if got := jobs[0].Deadline.Sub(jobs[0].Submitted); got != l {
		t.Errorf("submitted with deadline %s, chosen was %s", got, l)
	}
}

func TestSuspendResumeCancelAndRerunJob(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job).seen(`[data-action="cancel"]`)
	b.click(`[data-action="suspend"]`).seen(`dialog`)
	b.click(`dialog .solid`)
	b.toasts(`is being suspended`)
	w.Drain()
	b.seen(`[data-action="resume"]`).click(`[data-action="resume"]`)
	b.toasts(`is resumed`)
	w.Drain()
	// A declined confirmation changes nothing.
	b.seen(`[data-action="suspend"]`).click(`[data-action="cancel"]`)
	b.until(`document.querySelector('dialog') !== null && document.activeElement.innerText === 'Go back'`).
		run(chromedp.KeyEvent(kb.Escape))
	b.until(`document.querySelector('dialog') === null && document.activeElement.dataset.action === 'cancel'`)
	w.Drain()
	if d, err := w.Broker.Views.JobView(t.Context(), job); err != nil || d.State == apitypes.JobCancelled || d.State == apitypes.JobEnding {
		t.Fatalf("the job is %s, %v", d.State, err)
	}
	b.click(`[data-action="cancel"]`).seen(`dialog`)
	b.run(chromedp.SendKeys(chromedp.CSS(`dialog .field`), "wrong data"), chromedp.Click(chromedp.CSS(`dialog .danger`)))
	b.toasts(`is being cancelled`)
	w.Drain()
	b.until(`document.querySelector('[data-action="run again"]') !== null &&
		document.querySelector('main').innerText.includes('wrong data')`)
	b.click(`[data-action="run again"]`).seen(`dialog`).click(`dialog .solid`)
	b.until(`location.hash !== '#/jobs/` + job + `' && document.querySelector('.tile .value')?.innerText === '0 of 6'`)
}

// A program that a user forwards to another port of this host gets nothing of the session, and neither does a page of it:
// cookies would go to every port.
func TestSessionStaysInItsOrigin(t *testing.T) {
	w := deployed(t)
	midway(w)
	b := open(t, w).visit("#/").seen(`main tbody tr`)
	got := make(chan http.Header, 9)
	forwarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Clone()
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>forwarded</title>")
	}))
	defer forwarded.Close()
	b.allowed = []string{"CORS", "Failed to load", "401", "ERR_FAILED", "404"}
	b.run(chromedp.Navigate(forwarded.URL)).until(`document.title === 'forwarded'`)
	h := <-got
	for name, values := range h {
		if text := strings.Join(values, " "); name == "Cookie" || name == "Authorization" || strings.Contains(strings.ToLower(text), "session") {
			t.Errorf("another port gets %s: %s", name, text)
		}
	}
	if kept := eval[int](b, `localStorage.length`); kept != 0 {
		t.Errorf("a page of another port sees %d entries", kept)
	}
	if status := eval[string](b, `fetch('`+b.url+`/v1/jobs', { credentials: 'include' }).then((r) => String(r.status), () => 'refused')`); status != "refused" {
		t.Errorf("a page of another port reads jobs: %s", status)
	}
	b.run(chromedp.Navigate(b.url + "/")).seen(`main tbody tr`) // the session lasts
	b.mu.Lock()
	b.foreign = nil
	b.mu.Unlock()
}

func TestMarketsShowForecastAndBids(t *testing.T) {
	w := deployed(t)
	midway(w)
	priced(w, apitest.Start().Add(-6*time.Hour))
	b := open(t, w).visit("#/markets").
		until(`document.querySelectorAll('main tbody tr').length >= 4 &&
			document.querySelectorAll('main canvas').length === 1`)
	b.until(`document.querySelector('main h2').innerText.includes('p3.2xlarge')`)
	said := eval[string](b, `document.querySelector('main').innerText`)
	for _, part := range []string{"up to $3.06", "1 of 1", "Nine in ten below"} {
		if !strings.Contains(said, part) {
			t.Errorf("the markets lack %q: %s", part, said)
		}
	}
	b.run(chromedp.SendKeys(chromedp.CSS(`input[type="search"]`), "c3-standard")).
		counted(`section[aria-label="Markets"] tbody tr`, 1)
}

func TestCloudsShowHealthQuotasAndBlocks(t *testing.T) {
	w := planning(t)
	midway(w)
	w.Submit(apitest.Wide("mosaic", 3))
	w.Dead.Add(bus.DeadLetter{Message: bus.Message{ID: "e1", Type: "tradewind.dag.finished.v1", Group: "train"}, Queue: "hook", Reason: "webhook answered 500", At: w.Clock.Now()})
	b := open(t, w).visit("#/clouds").
		until(`document.querySelectorAll('.cloud').length === 4 &&
			document.querySelector('main').innerText.includes('webhook answered 500')`)
	said := eval[string](b, `document.querySelector('main').innerText`)
	for _, part := range []string{"use2-az3", "the client secret has expired", "az ad sp credential reset", "640 of 640", "nothing can be bought"} {
		if !strings.Contains(said, part) {
			t.Errorf("the clouds lack %q: %s", part, said)
		}
	}
	b.click(`section[aria-label="Failed events"] .after`).seen(`dialog`).click(`dialog .solid`)
	b.until(`document.querySelector('section[aria-label="Failed events"]').hidden`)
}

func TestDrainAndResumeQueue(t *testing.T) {
	w := deployed(t)
	if err := w.Broker.Users.SetQueue(t.Context(), "research", record.QueueSettings{MaxRunning: 2, MaxVCPU: 48}); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	spec := apitest.Wide("night", 1)
	spec.Queue = "research"
	job := w.Submit(spec)
	w.Node(job, spec.Tasks[0].Name, 0).Start()
	b := open(t, w).visit("#/capacity").seen(`button[aria-label="Drain queue research"]`)
	// Redrawn content keeps the focus.
	b.focus(`button[aria-label="Suspend queue research"]`)
	if err := w.Broker.Users.SetQueue(t.Context(), "research", record.QueueSettings{MaxRunning: 3, MaxVCPU: 48}); err != nil {
		t.Fatal(err)
	}
	b.says("1 of 3 running")
	if at := eval[string](b, `document.activeElement.ariaLabel`); at != "Suspend queue research" {
		t.Errorf("the focus went to %q", at)
	}
	b.click(`button[aria-label="Drain queue research"]`).seen(`dialog`).
		until("document.querySelector('dialog').innerText.includes('start again from the beginning: " + job + "/" +
			spec.Tasks[0].Name + ".')").click(`dialog .danger`)
	b.until(`document.querySelector('main').innerText.includes('suspended') &&
		document.querySelector('main').innerText.includes('by dashboard')`)
	b.click(`button[aria-label="Resume queue research"]`).seen(`button[aria-label="Drain queue research"]`)
}

func TestDrainAndUndrainMachine(t *testing.T) {
	w := deployed(t)
	if err := w.Broker.Users.SetPool(t.Context(), "lab", record.PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	w.Joins("lab", "gpu-1", wire.PoolCapacity{CPUs: 64, MemoryGiB: 256})
	b := open(t, w).visit("#/capacity").seen(`button[aria-label="Drain: machine gpu-1"]`)
	b.click(`button[aria-label="Drain: machine gpu-1"]`).seen(`dialog`).click(`dialog .solid`)
	b.until(`document.querySelector('.pool tbody').innerText.includes('drained')`)
	b.click(`button[aria-label="Put back to work: machine gpu-1"]`).
		until(`document.querySelector('.pool tbody').innerText.includes('ready')`)
}

func TestSearchLog(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	node := w.Node(job, "train", 0)
	node.Logged = 73
	b := open(t, w).visit("#/jobs/" + job + "/logs").
		until(`document.querySelector('.log').textContent.includes('epoch 13')`)
	node.Logged = eval[int64](b, logBytes(job))
	for i := range 40 {
		node.Print(fmt.Sprintf("step %d loss 1.%03d", i, 999-i))
	}
	node.Print("WARNING: gradient norm 42.1 is above 10")
	b.until(`document.querySelector('.log').textContent.includes('WARNING')`)
	b.run(chromedp.SendKeys(chromedp.CSS(`input[aria-label="Find in the log"]`), "loss"))
	b.until(`document.querySelector('.pane').innerText.includes('of 42 matches')`)
	first := eval[string](b, `[...document.querySelectorAll('.filters [role=status]')].at(-1).textContent`)
	b.run(chromedp.KeyEvent(kb.Enter)).
		until(`[...document.querySelectorAll('.filters [role=status]')].at(-1).textContent !== ` + fmt.Sprintf("%q", first))
	eval[bool](b, `(() => { const i = document.querySelector('input[aria-label="Find in the log"]'); i.value = 'warning'; i.dispatchEvent(new Event('input')); document.querySelectorAll('.pane input[type=checkbox]')[1].click(); return true; })()`)
	b.until(`document.querySelector('.log').textContent.trim() === 'WARNING: gradient norm 42.1 is above 10'`)
	node.Print("nothing of interest").Print("WARNING: again")
	b.until(`document.querySelector('.log').textContent.trim().endsWith('WARNING: again') && !document.querySelector('.log').textContent.includes('interest')`)
}

func TestShortcutsReachEveryPage(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("").seen(`[data-job]`)
	for key, hash := range map[string]string{"p": "#/plan", "c": "#/capacity", "m": "#/markets", "j": "#/"} {
		b.run(chromedp.KeyEvent("g"), chromedp.KeyEvent(key)).until(`location.hash === '` + hash + `'`)
	}
	b.run(chromedp.KeyEvent("?")).until(`document.querySelector('dialog')?.innerText.includes('Shortcuts')`)
	b.run(chromedp.KeyEvent(kb.Escape)).gone(`dialog`)
	b.visit("#/jobs/" + job).seen(`[data-task]`)
	b.run(chromedp.KeyEvent("2")).seen(`.run[data-bar]`)
	b.focus(`.run[tabindex="0"]`).run(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.seen(`.attempt-card`).run(chromedp.KeyEvent(kb.Escape)).until(`document.querySelector('.attempt-card') === null`)
	b.focus(`.plot`).run(chromedp.KeyEvent(kb.ArrowRight)).
		until(`/\$/.test(document.querySelector('#said').textContent)`)
}

// If the broker stops, an open log is not complete: the page reconnects, and the shown text stays meanwhile.
func TestLogReconnects(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	node := w.Node(job, "train", 0)
	b := open(t, w).visit("#/jobs/" + job + "/logs").
		until(`document.querySelector('.log').textContent.includes('epoch 13')`)
	b.allowed = append(b.allowed, "net::ERR_")
	status := `document.querySelector('.filters [role=status]').textContent`
	node.Logged = eval[int64](b, logBytes(job))
	w.Server.CloseClientConnections()
	b.until(status + `.startsWith('Connection lost') && document.querySelector('.log').textContent.includes('epoch 13')`)
	node.Print("epoch 99")
	b.until(status + ` === 'Following' && document.querySelector('.log').textContent.split('epoch 99').length === 2`)
	if log := eval[string](b, `document.querySelector('.log').textContent`); strings.Count(log, "epoch 13") != 1 {
		t.Errorf("shown twice: %q", log)
	}
}

// The logs tab, opened before any task runs, shows logs when a task starts, and lists the tasks that have started since.
func TestLogsTabShowsTaskThatStartsLater(t *testing.T) {
	w := deployed(t)
	ctx, queue := t.Context(), record.DefaultQueueName
	if err := w.Broker.Users.SuspendQueue(ctx, queue, apitypes.Suspension{}, "1"); err != nil {
		t.Fatal(err)
	}
	job := w.Submit(apitest.Wide("early", 1))
	b := open(t, w).visit("#/jobs/" + job + "/logs").says("No task has started yet.")
	if err := w.Broker.Users.ResumeQueue(ctx, queue, "", "2"); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	split := w.Node(job, "split", 0).Start().Print("cutting\n")
	b.until(`document.querySelector('.log').textContent.includes('cutting')`)
	split.Succeed()
	w.Node(job, "project-0000", 0).Start()
	b.until(`[...document.querySelector('select[aria-label="Task"]').options].some((o) => o.text === 'project-0000')`)
	if log := eval[string](b, `document.querySelector('.log').textContent`); !strings.Contains(log, "cutting") {
		t.Errorf("the log that was read is gone: %q", log)
	}
}

// held delays the page's requests below some paths; window.answered counts the responses that the page has processed.
const held = `(() => {
	const ask = window.fetch;
	Object.assign(window, { waiting: [], answered: 0 });
	window.fetch = async (path, options) => {
		if (!path.startsWith('/v1/plans') && !path.startsWith('/v1/frontiers')) return ask(path, options);
		await new Promise((go) => window.waiting.push(go));
		const res = await ask(path, options);
		res.json = async () => {
			const body = await Response.prototype.json.call(res);
			setTimeout(() => { window.answered += 1; }); // after the page has processed it
			return body;
		};
		return res;
	};
	return true;
})()`

// The result for a file that has changed meanwhile is not shown, and cannot be submitted with the new file.
func TestStalePlanOfChangedFileIsDiscarded(t *testing.T) {
	b := open(t, planning(t)).visit("#/plan").seen(`.source`)
	b.write(pipeline).click(`button[type="submit"]`).until(`document.querySelectorAll('[data-point]').length >= 2`)
	eval[bool](b, held)
	other := strings.Replace(pipeline, "name: reads-to-variants", "name: other", 1)
	shown := `[!document.querySelector('.solid.good').hidden, document.querySelector('.plan-table') !== null,
		!document.querySelector('[aria-label="Frontier"]').hidden].join()`

	b.click(`button[type="submit"]`).until(`window.waiting.length === 1`).write(other)
	eval[int](b, `window.waiting.shift()() ?? 0`)
	b.until(`window.answered === 1`)
	if got := eval[string](b, shown); got != "false,false,false" {
		t.Errorf("of the file before, whether it can be submitted, its plan and its frontier are shown: %s", got)
	}

	b.click(`button[type="submit"]`).until(`window.waiting.length === 1`)
	eval[int](b, `window.waiting.shift()() ?? 0`)
	b.until(`window.waiting.length === 1 && document.querySelector('.plan-table')`).write(pipeline)
	eval[int](b, `window.waiting.shift()() ?? 0`)
	b.until(`window.answered === 3`)
	if got := eval[string](b, shown); got != "false,false,false" {
		t.Errorf("of the file before, while its frontier was looked for: %s", got)
	}
}

// Changed limits are planned before the job is submitted; the frontier covers all deadlines, and stays.
func TestPlanWithOtherLimitsIsNotSubmitted(t *testing.T) {
	b := open(t, planning(t)).visit("#/plan").seen(`.source`)
	for _, limit := range []struct{ field, to string }{{"deadline", "30h"}, {"budget", "80"}, {"objective", "makespan"}} {
		if limit.field == "deadline" {
			b.write(pipeline).click(`button[type="submit"]`)
		} else {
			b.click(`button[type="submit"]`)
		}
		b.until(`!document.querySelector('.solid.good').hidden && document.querySelectorAll('[data-point]').length >= 2`)
		eval[bool](b, `(() => {
			const field = document.querySelector('#plan-`+limit.field+`');
			field.value = '`+limit.to+`';
			return field.dispatchEvent(new Event('input', { bubbles: true }));
		})()`)
		if got := eval[string](b, `[document.querySelector('.solid.good').hidden,
			document.querySelector('.plan-table') === null,
			document.querySelector('[aria-label="Frontier"]').hidden].join()`); got != "true,true,false" {
			t.Errorf("%s was changed: whether the plan cannot be submitted, is gone, and its frontier: %s", limit.field, got)
		}
	}
}
