package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
)

// Each view of a job has an address: Back returns to it, and a link or a reload opens it.
func TestTabsHaveAddresses(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	at := func(view string) string { return `location.hash === '#/jobs/` + job + view + `'` }
	b := open(t, w).visit("#/jobs/" + job).seen(`[data-task]`)
	b.click(`#tab-timeline`).until(at("/timeline")).seen(`[data-bar="2.2"]`)
	b.click(`#tab-logs`).until(at("/logs/train")).seen(`.log`)
	b.run(chromedp.NavigateBack()).until(at("/timeline")).seen(`#tab-timeline[aria-selected="true"]`).seen(`.lanes`)
	b.run(chromedp.NavigateBack()).until(at("")).seen(`#tab-tasks[aria-selected="true"]`).seen(`[data-task]`)
	b.run(chromedp.NavigateForward()).until(at("/timeline")).seen(`.lanes`)

	b.click(`[data-bar="2.1"]`).until(at("/timeline/train/1")).run(chromedp.Reload()).
		until(`document.querySelector('.attempt-card h3').textContent === 'train, attempt 1'`)
	b.click(`.attempt-card .row .quiet`).until(at("/tasks/train")).run(chromedp.Reload()).
		until(`document.querySelector('.detail h3').textContent === 'train'`)
	b.click(`.detail .quiet`).until(at("/logs/train")).run(chromedp.NavigateBack()).until(at("/tasks/train")).
		seen(`.detail`).run(chromedp.NavigateForward()).until(at("/logs/train")).run(chromedp.Reload()).
		until(`document.querySelector('.log').textContent.includes('epoch 13')`)
	eval[bool](b, `(() => { const s = document.querySelector('select[aria-label="Attempt"]'); s.value = '1'; return s.dispatchEvent(new Event('change')); })()`)
	b.until(at("/logs/train/1")).run(chromedp.Reload()).
		until(`document.querySelector('select[aria-label="Attempt"]')?.value === '1'`)
	if href := eval[string](b, `document.querySelector('#tab-money').getAttribute('href')`); href != "#/jobs/"+job+"/money" {
		t.Errorf("the tab's link is %s", href)
	}
	if y := eval[float64](b, `document.querySelector('.tabs').getBoundingClientRect().bottom`); y > 220 {
		t.Errorf("the tabs end %.0f px below the top", y)
	}
}

// The views of a job that never ran say so, instead of showing empty drawings.
func TestViewsOfJobThatNeverRan(t *testing.T) {
	w := deployed(t)
	poor := apitest.Wide("poor", 1)
	poor.Budget = 0.005 // below which the planner finds no plan
	job := w.Submit(poor)
	b := open(t, w)
	for view, want := range map[string]string{"timeline": "No task has started.", "logs": "No task has started.",
		"money": "Nothing was bought.", "plans": "No plan is feasible."} {
		b.visit("#/jobs/" + job + "/" + view).says(want)
		if drawn := eval[int](b, `[...document.querySelectorAll('.pane :is(.lanes, .plot, .log, select)')].filter((e) => e.checkVisibility()).length`); drawn > 0 {
			t.Errorf("%s shows %d empty drawings or controls", view, drawn)
		}
	}
}

func TestFoldedGraphStaysFolded(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	const shown = `document.querySelector('.graph').checkVisibility()`
	b := open(t, w).visit("#/jobs/" + job).until(shown)
	b.click(`.drawing summary`).until(`!` + shown).anew("#/jobs/" + job).seen(`[data-row]`).until(`!` + shown)
	// A task that is chosen in the table is shown all the same.
	b.click(`[data-row="2"] .link`).until(`document.querySelector('.detail').checkVisibility()`)
	b.click(`.drawing summary`).until(shown + ` && document.querySelectorAll('[data-task]').length === 6`)
	b.anew("#/jobs/" + job).until(shown)
}

func TestFailedJobOpensOnLogOfFailedTask(t *testing.T) {
	w := deployed(t)
	job := w.Submit(apitest.Wide("trouble", 1))
	w.Node(job, "split", 0).Start().Print("split is done").Succeed()
	w.Node(job, "project-0000", 0).Start().Print("cannot go on").
		Report(wire.Report{Event: wire.Failed, ExitCode: 7, Phase: wire.PhaseRun})
	b := open(t, w).visit("#/jobs").seen(`[data-job]`).click(`[data-job] a`)
	b.until(`document.querySelector('.log').textContent.includes('cannot go on')`)
	b.until(`location.hash === '#/jobs/` + job + `/logs/project-0000'`)
	if said := eval[string](b, `document.querySelector('.pane .warning').innerText`); !strings.Contains(said, "project-0000, attempt 1, failed: exit code 7") {
		t.Errorf("above the log it says %q", said)
	}
	b.click(`#tab-tasks`).seen(`[data-task]`).run(chromedp.NavigateBack(), chromedp.NavigateBack()).seen(`[data-job]`)
}

// On a phone the graph is drawn from top to bottom, so that no box is cut off, and the page still scrolls over it. All tabs fit.
func TestGraphAndTabsFitPhone(t *testing.T) {
	w := deployed(t)
	b := open(t, w).as(390, 844, "light")
	for _, job := range []string{w.Submit(apitest.Training()), w.Submit(apitest.Wide("mosaic", 7)), w.Submit(apitest.Wide("large", 400))} {
		b.visit("#/jobs/" + job).seen(`.node`)
		out := eval[[]string](b, `(() => {
			const within = (el, r) => { const b = el.getBoundingClientRect(); return b.left >= r.left && b.right <= r.right && b.bottom <= r.bottom; };
			const graph = document.querySelector('.graph').getBoundingClientRect();
			return [...[...document.querySelectorAll('.node .body')].filter((e) => !within(e, graph)).map((e) => e.parentElement.textContent),
				...[...document.querySelectorAll('.tabs a')].filter((e) => !within(e, { left: 0, right: 390, bottom: 844 })).map((e) => e.textContent)];
		})()`)
		if len(out) > 0 {
			t.Errorf("%s: cut off are %q", job, out)
		}
		if size := eval[float64](b, `document.querySelector('.graph .name').getBoundingClientRect().height`); size < 8 {
			t.Errorf("%s: its names are %.1f px high", job, size)
		}
		if touch := eval[string](b, `getComputedStyle(document.querySelector('.graph')).touchAction`); touch != "pan-y" {
			t.Errorf("touching the graph allows %q", touch)
		}
	}
}
