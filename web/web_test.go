package web_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/web"
)

// midway runs half of a job: one zone refused it, its training machine was preempted, and it continues elsewhere.
func midway(w *apitest.World) string {
	w.Cloud.Refuse("use2-az3")
	job := w.Submit(apitest.Training())
	a, b := w.Node(job, "prepare-a", 0).Start(), w.Node(job, "prepare-b", 0).Start()
	w.Clock.Advance(20 * time.Minute)
	a.Print("sharding 1,281,167 images into 640 files").Print("done").Succeed()
	w.Clock.Advance(5 * time.Minute)
	b.Succeed()
	w.Clock.Advance(2 * time.Minute)
	w.Node(job, "train", 1).Start()
	w.Node(job, "train", 0).Start().Save(0.42)
	w.Clock.Advance(63 * time.Minute)
	w.Take(job, "train")
	w.Clock.Advance(3 * time.Minute)
	w.Node(job, "train", 1).Start()
	second := w.Node(job, "train", 0).Start()
	second.Print("resuming from checkpoint ckpt/000001").Print("\x1b[32mepoch 12\x1b[0m loss 1.8342").Print("epoch 13 loss 1.7921")
	w.Clock.Advance(30 * time.Minute)
	second.Save(0.61)
	return job
}

func states(b *browser) map[string]string {
	b.t.Helper()
	return eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll('[data-task]')].map((n) => [n.querySelector('title').textContent.split(':')[0], n.dataset.state]))`)
}

func TestDAGShowsAndFollowsTaskStates(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job).until(`document.querySelectorAll('[data-task]').length === 6`)
	want := map[string]string{
		"prepare-a": "succeeded", "prepare-b": "succeeded", "train": "running", "evaluate": "waiting", "infer": "waiting", "export": "waiting",
	}
	if got := states(b); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("states = %v, want %v", got, want)
	}
	if n := eval[int](b, `document.querySelectorAll('.graph .edge').length`); n != 6 {
		t.Errorf("%d edges are drawn", n)
	}
	b.click(`[data-row="2"] .link`).until(`document.querySelector('.detail h3').textContent === 'train' && document.querySelectorAll('.attempts li').length === 2`)
	b.until(`document.querySelector('.detail').innerText.includes('spot interruption')`)
	b.until(`document.querySelector('.detail').getBoundingClientRect().left > document.querySelector('.graph').getBoundingClientRect().right`)
	b.until(`document.querySelectorAll('.detail .compact tbody tr').length > 0`)

	w.Node(job, "train", 1).Report(wire.Report{Event: wire.Succeeded})
	w.Clock.Advance(time.Hour)
	w.Node(job, "train", 0).Report(wire.Report{Event: wire.Succeeded})
	b.until(`document.querySelector('[data-task="2"]').dataset.state === 'succeeded' && document.querySelector('[data-task="3"]').dataset.state === 'launching'`)
	b.until(`document.querySelector('[data-row="2"]').dataset.state === 'succeeded'`)
	for _, name := range []string{"evaluate", "infer", "export"} {
		w.Node(job, name, 0).Start().Succeed()
	}
	b.until(`document.querySelector('.title .badge').dataset.state === 'succeeded' && document.querySelector('#live').textContent === 'Finished'`)
	b.until(`document.querySelector('#said').textContent.includes('6 of 6 tasks done')`)
}

func TestStoryPlansAndLogsAreShown(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job + "/story").until(`document.querySelectorAll('.story li').length > 8`)
	story := eval[string](b, `document.querySelector('.story').innerText`)
	for _, part := range []string{"there is not enough capacity", "preempted", "resuming from a checkpoint", "replanned"} {
		if !strings.Contains(story, part) {
			t.Errorf("the story lacks %q: %s", part, story)
		}
	}
	b.click(`#tab-plans`).until(`document.querySelectorAll('.pane table tbody tr').length >= 3 && document.querySelectorAll('.choices details').length > 0`)
	b.click(`.choices summary`)
	b.click(`#tab-logs`).until(`document.querySelector('.log').textContent.includes('epoch 13')`)
	if log := eval[string](b, `document.querySelector('.log').textContent`); strings.Contains(log, "[32m") {
		t.Errorf("the log has a terminal's colours: %q", log)
	}
	node := w.Node(job, "train", 0)
	node.Logged = eval[int64](b, logBytes(job))
	node.Print("epoch 14 loss 1.7708")
	b.until(`document.querySelector('.log').textContent.includes('epoch 14')`)
	eval[bool](b, `(() => { const s = document.querySelector('select[aria-label="Task"]'); s.value = '0'; return s.dispatchEvent(new Event('change')); })()`)
	b.until(`document.querySelector('.log').textContent.includes('sharding') && document.querySelector('.filters [role=status]').textContent === 'Complete'`)
}

func TestLargeJobFoldsIntoLevels(t *testing.T) {
	w := deployed(t)
	job := w.Submit(apitest.Wide("mosaic", 400))
	w.Node(job, "split", 0).Start().Succeed()
	for i := range 21 {
		n := w.Node(job, fmt.Sprintf("project-%04d", i), 0).Start()
		if i%3 > 0 {
			n.Succeed()
		}
	}
	b := open(t, w).visit("#/jobs/" + job).until(`document.querySelectorAll('[data-level]').length === 3`)
	if label := eval[string](b, `document.querySelector('[data-level="1"]').getAttribute('aria-label')`); !strings.Contains(label, "400 tasks") || !strings.Contains(label, "14 succeeded") {
		t.Errorf("the level says %q", label)
	}
	b.click(`[data-level="1"]`).until(`document.querySelector('.filters [role=status]').textContent === '400 of 402 tasks'`)
	if n := eval[int](b, `document.querySelectorAll('.tasks tbody tr').length`); n != 50 {
		t.Errorf("%d rows at first", n)
	}
	w.Node(job, "project-0000", 0).Report(wire.Report{Event: wire.Succeeded})
	b.until(`document.querySelector('[data-level="1"]').getAttribute('aria-label').includes('15 succeeded')`)
	b.click(`.tools .quiet`).until(`document.querySelectorAll('[data-task]').length === 402`)
	b.click(`[data-row="5"] .link`).until(`document.querySelectorAll('.edge.lit').length === 2`)
}

func TestNamesFitTheirBoxes(t *testing.T) {
	w := deployed(t)
	spec := apitest.Training()
	for i := range spec.Tasks {
		spec.Tasks[i].Name = strings.Repeat("WMMWmap", 1+i) + "_MONTAGE_of_wide_letters_" + spec.Tasks[i].Name
	}
	job := w.Submit(spec)
	b := open(t, w).visit("#/jobs/" + job).until(`document.querySelectorAll('[data-task]').length === 6`)
	if out := eval[[]string](b, `[...document.querySelectorAll('[data-task]')].flatMap((n) => { const box = n.querySelector('.body').getBoundingClientRect();
		return [...n.querySelectorAll('text')].filter((t) => t.getBoundingClientRect().right > box.right - 2).map((t) => t.textContent); })`); len(out) > 0 {
		t.Errorf("beyond their boxes are %q", out)
	}
}

func TestInitialViewShowsWholeColumns(t *testing.T) {
	w := deployed(t)
	b := open(t, w)
	for _, n := range []int{5, 9, 14} {
		spec := apitest.Wide(fmt.Sprint("chain-", n), n)
		spec.Edges = nil
		for i := 1; i < len(spec.Tasks); i++ {
			spec.Edges = append(spec.Edges, dag.Edge{From: i - 1, To: i})
		}
		job := w.Submit(spec)
		b.visit("#/jobs/" + job).until(fmt.Sprintf(`document.querySelectorAll('[data-task]').length === %d`, n+2))
		if cut := eval[int](b, `(() => { const all = document.querySelector('.graph').getBoundingClientRect();
			return [...document.querySelectorAll('.node .body')].map((n) => n.getBoundingClientRect()).filter((n) => [all.left, all.right].some((x) => n.left < x && n.right > x)).length; })()`); cut > 0 {
			t.Errorf("in a chain of %d, %d boxes are cut off", n+2, cut)
		}
	}
}

func TestCapacityUsesOneRequestForAllQueues(t *testing.T) {
	w := deployed(t)
	for i := range 1000 {
		if err := w.Broker.Users.SetQueue(t.Context(), fmt.Sprintf("queue-%04d", i), record.QueueSettings{MaxRunning: 1}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, w).visit("#/capacity").until(`document.querySelectorAll('tbody tr').length === 1000`)
	if n := eval[int](b, `performance.getEntriesByType('resource').filter((r) => r.name.includes('/v1/queues')).length`); n > 2 {
		t.Errorf("the page made %d requests for queues", n)
	}
}

func TestGraphMovesZoomsAndNavigates(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job).until(`document.querySelectorAll('[data-task]').length === 6`)
	transform := func() string {
		return eval[string](b, `document.querySelector('.graph > g').getAttribute('transform')`)
	}
	before := transform()
	b.click(`button[aria-label="Zoom in"]`)
	if after := transform(); after == before || !strings.Contains(after, "scale(1.3") && !strings.Contains(after, "scale(1.") {
		t.Errorf("zooming went from %s to %s", before, after)
	}
	b.click(`button[aria-label="Show everything"]`)
	if after := transform(); after != before {
		t.Errorf("fitting went to %s, not back to %s", after, before)
	}
	b.drag(`.graph`, 60, 30)
	if after := transform(); after == before {
		t.Error("dragging moved nothing")
	}
	b.focus(`[data-task="0"]`).run(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	if at := eval[string](b, `document.activeElement.dataset.task`); at != "3" && at != "4" {
		t.Errorf("two steps to the right of prepare-a is task %s", at)
	}
	b.run(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter)).until(`document.querySelector('.detail h3').textContent === 'train'`)
	b.run(chromedp.KeyEvent("+"))
}

func TestJobListUpdates(t *testing.T) {
	w := deployed(t)
	b := open(t, w).visit("").until(`document.querySelector('[data-empty]') !== null`)
	job := midway(w)
	b.until(`document.querySelector('[data-job="` + job + `"]').dataset.state === 'running'`)
	// Only a bill shows a saving: the list does not know what an active job will cost.
	if text := eval[string](b, `document.querySelector('[data-label="On demand"]').textContent`); strings.Contains(text, "%") {
		t.Errorf("an active job already shows a saving: %s", text)
	}
	done := w.Submit(apitest.Wide("thumbnails", 2))
	for _, name := range []string{"split", "project-0000", "project-0001", "merge"} {
		n := w.Node(done, name, 0).Start()
		w.Clock.Advance(7 * time.Minute)
		n.Succeed()
	}
	failed := w.Submit(apitest.Wide("align-genomes", 2))
	w.Node(failed, "split", 0).Start().Report(wire.Report{Event: wire.Failed, ExitCode: 137, Phase: wire.PhaseRun, Message: "Killed"})
	w.Submit(apitest.Wide("mosaic", 40))
	b.until(`document.querySelectorAll('[data-job]').length === 4 && document.querySelector('[data-job="` + failed + `"]').dataset.state === 'failed'`)
	b.run(chromedp.Click(`[data-job="` + failed + `"] a`)).until(`document.querySelector('.warning')?.textContent.includes('exit code 137')`)
	b.run(chromedp.NavigateBack()).until(`document.querySelectorAll('[data-job]').length === 4`)
}

func TestCapacityPage(t *testing.T) {
	w := deployed(t)
	b := open(t, w).visit("#/capacity").until(`document.querySelector('main').innerText.includes('No queue has been used yet')`)
	if err := w.Broker.Users.SetQueue(t.Context(), "research", record.QueueSettings{MaxRunning: 2, MaxVCPU: 48, Description: "Ada's experiments"}); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	midway(w)
	w.Submit(apitest.Wide("mosaic", 3))
	b.until(`document.querySelector('main').innerText.includes("Ada's experiments") && document.querySelectorAll('main canvas').length === 1`)
}

func TestSignInIsExplained(t *testing.T) {
	w := deployed(t)
	b := open(t, w)
	b.allowed = []string{"401"}
	b.run(chromedp.Navigate(b.url + "/?token=wrong")).until(`document.querySelector('main').innerText.includes('Sign in')`)
	if at := eval[string](b, `location.href`); at != b.url+"/" {
		t.Errorf("the address is %s", at)
	}
	b.run(chromedp.Navigate(b.url+"/#/jobs/x"), chromedp.Reload()).until(`document.querySelector('main').innerText.includes('Sign in')`)
}

func TestMissingJobShowsNotFound(t *testing.T) {
	w := deployed(t)
	b := open(t, w)
	b.allowed = []string{"404"}
	b.visit("#/jobs/none").until(`document.querySelector('main').innerText.includes('Not found')`)
}

// contrast lists the texts whose contrast is below the minimum of WCAG 2.2 level AA: 4.5, or 3 for large text. Text in a drawing has the
// background of its box.
const contrast = `(() => {
	const parse = (text) => {
		const n = text.match(/[\d.]+/g).map(Number);
		const [r, g, b] = text.startsWith('color(') ? n.map((v) => v * 255) : n;
		return { r, g, b, a: n[3] ?? 1 };
	};
	const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1 });
	const light = ({ r, g, b }) => {
		const lin = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * lin(r) + 0.7152 * lin(g) + 0.0722 * lin(b);
	};
	const ground = (el) => {
		if (!el) return { r: 255, g: 255, b: 255, a: 1 };
		if (el.matches('.node')) return parse(getComputedStyle(el.querySelector('.body')).fill);
		const bg = parse(getComputedStyle(el).backgroundColor);
		return bg.a === 1 ? bg : over(bg, ground(el.parentElement));
	};
	const faint = new Set();
	for (const el of document.querySelectorAll('body *')) {
		if (![...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !el.getClientRects().length || el.closest('.sr, .skip') || el.matches('title, option')) continue;
		const style = getComputedStyle(el);
		const below = ground(el);
		const ink = over(parse(el.namespaceURI.endsWith('svg') ? style.fill : style.color), below);
		const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const size = parseFloat(style.fontSize);
		if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) faint.add(ratio.toFixed(2) + ' ' + (el.className.baseVal ?? el.className) + ': ' + el.textContent.slice(0, 40));
	}
	return [...faint];
})()`

func TestTaskWaitingForPriceIsShown(t *testing.T) {
	w := deployed(t)
	b := open(t, w).visit("")
	said := eval[[]string](b, `(async () => {
		const { detail } = await import('/assets/js/detail.js');
		const task = { name: 'train', state: 'queued', waits: 'waits for a better price: 2.98 USD/h now, worth 0.66' };
		const job = { tasks: [task], view: { objective: 'cost' }, attemptsOf: () => [], cost: () => 0, now: () => Date.now() };
		const panel = detail(job, 0, { close() {}, log() {} });
		return [...panel.querySelectorAll('.warning')].map((p) => p.textContent + ' ' + p.dataset.state);
	})()`)
	if len(said) != 1 || !strings.Contains(said[0], "worth 0.66") || !strings.HasSuffix(said[0], "queued") {
		t.Errorf("its panel says %q", said)
	}
}

func TestLayoutInvariants(t *testing.T) {
	w := deployed(t)
	b := open(t, w).visit("")
	wrong := eval[[]string](b, `(async () => {
		const { blocks, layout, levels, spread, collapse } = await import('/assets/js/layout.js');
		const wrongs = [];
		const expect = (ok, what) => ok || wrongs.push(what);
		let seed = 1;
		const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
		const size = { w: 100, h: 40, gapX: 50, gapY: 10, bend: 6 };
		for (let round = 0; round < 60; round++) {
			const n = 1 + Math.floor(random() * 60);
			const after = Array.from({ length: n }, (_, i) => [...new Set(Array.from({ length: Math.floor(random() * 4) }, () => Math.floor(random() * i)))].filter(() => i > 0));
			const level = levels(after);
			after.forEach((ps, i) => {
				expect(ps.every((p) => level[p] < level[i]), 'a task is not right of what it waits for');
				expect(level[i] === (ps.length ? 1 + Math.max(...ps.map((p) => level[p])) : 0), 'a level is not the longest path');
			});
			const drawn = layout(after, size);
			expect(drawn.edges.length === after.flat().length, 'edges are missing');
			drawn.nodes.forEach((a, i) => {
				expect(a.x >= 0 && a.y >= -1e-6 && a.x + a.w <= drawn.width + 1e-6 && a.y + a.h <= drawn.height + 1e-6, 'a task is outside');
				drawn.nodes.forEach((b, j) => expect(i >= j || a.x !== b.x || a.y + a.h + size.gapY <= b.y + 1e-6 || b.y + b.h + size.gapY <= a.y + 1e-6, 'tasks overlap'));
			});
			const packed = blocks(after, size, 0.5 + random() * 3);
			packed.nodes.forEach((a, i) => {
				expect(a.x >= 0 && a.y >= 0 && a.x + a.w <= packed.width + 1e-6 && a.y + a.h <= packed.height + 1e-6, 'a packed task is outside');
				packed.nodes.forEach((b, j) => expect(i >= j || Math.abs(a.x - b.x) >= a.w || Math.abs(a.y - b.y) >= a.h, 'packed tasks overlap'));
				after[i].forEach((p) => expect(packed.nodes[p].x + a.w < a.x, 'a packed task is not right of what it waits for'));
			});
			const folded = collapse(after);
			expect(folded.members.flat().length === n, 'folding lost tasks');
		}
		// spread is optimal for this order: no single move improves it.
		for (let round = 0; round < 40; round++) {
			const want = Array.from({ length: 8 }, () => random() * 100);
			const heights = want.map(() => 5 + random() * 10);
			const y = spread(want, heights, 3);
			const room = (k) => heights[k - 1] / 2 + 3 + heights[k] / 2;
			for (let k = 1; k < y.length; k++) expect(y[k] - y[k - 1] >= room(k) - 1e-6, 'places overlap');
			const cost = (ys) => ys.reduce((sum, v, k) => sum + (v - want[k]) ** 2, 0);
			for (let k = 0; k < y.length; k++) {
				for (const d of [-0.01, 0.01]) {
					const other = y.map((v, j) => (j === k ? v + d : v));
					const fits = other.every((v, j) => j === 0 || v - other[j - 1] >= room(j));
					expect(!fits || cost(other) >= cost(y) - 1e-9, 'a place can be improved');
				}
			}
		}
		return [...new Set(wrongs)];
	})()`)
	for _, w := range wrong {
		t.Error(w)
	}
}

func TestAssetsHaveStrictPolicyAndTypes(t *testing.T) {
	h, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, header http.Header) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest("GET", path, http.NoBody)
		req.Header = header
		h.ServeHTTP(rec, req)
		return rec
	}
	err = fs.WalkDir(os.DirFS("static"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		res := get("/assets/"+name, http.Header{})
		if res.Code != http.StatusOK || res.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d %q", name, res.Code, res.Header().Get("Content-Type"))
		}
		if p := res.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", name, p)
		}
		again := get("/assets/"+name, http.Header{"If-None-Match": {res.Header().Get("ETag")}})
		if again.Code != http.StatusNotModified {
			t.Errorf("%s asked for again: %d", name, again.Code)
		}
		if foreign := regexp.MustCompile(`https?://[^"'\s)]+`).FindAllString(res.Body.String(), -1); len(foreign) > 0 {
			for _, f := range foreign {
				if f != "http://www.w3.org/2000/svg" {
					t.Errorf("%s names %s", name, f)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/assets/none.js", "/assets/", "/assets/../web.go", "/assets/js"} {
		if res := get(path, http.Header{}); res.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.Code)
		}
	}
	if res := get("/", http.Header{}); res.Code != http.StatusOK || !strings.Contains(res.Body.String(), "<title>Tradewind</title>") {
		t.Errorf("/: %d", res.Code)
	}
}
