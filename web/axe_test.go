package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// axeFile is axe-core as installed by scripts/web-tools.sh.
const axeFile = "../.tools/web/axe/node_modules/axe-core/axe.min.js"

// axe fails the test for each violation that axe-core finds on the page.
func (b *browser) axe(where, source string) {
	b.t.Helper()
	eval[bool](b, source+";true")
	found := eval[string](b, `axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations.map((v) => ({ ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => n.target.join(' ') + ' ' + n.html.slice(0, 160)) }))))`)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: %s: %s\n%q", where, v.ID, v.Help, v.Nodes[:min(len(v.Nodes), 3)])
	}
}

// furnished returns a World in which every page has content, and the pages, each with a selector that appears when it is loaded.
func furnished(t *testing.T) (w *apitest.World, job string, pages map[string]string) {
	t.Helper()
	w = planning(t)
	if err := w.Broker.Users.SetQueue(t.Context(), "research", record.QueueSettings{MaxRunning: 2, MaxVCPU: 48}); err != nil {
		t.Fatal(err)
	}
	if err := w.Broker.Users.SetPool(t.Context(), "lab", record.PoolSettings{Description: "the machines in the lab"}); err != nil {
		t.Fatal(err)
	}
	job = midway(w)
	priced(w, apitest.Start())
	w.Joins("lab", "gpu-1", wire.PoolCapacity{CPUs: 64, MemoryGiB: 256})
	failed := w.Submit(apitest.Wide("align-genomes", 2))
	w.Node(failed, "split", 0).Start().Report(wire.Report{Event: wire.Failed, ExitCode: 137, Phase: wire.PhaseRun, Message: "Killed"})
	poor := apitest.Wide("too-dear", 1)
	poor.Budget = 0.005 // below which the planner finds no plan
	infeasible := w.Submit(poor)
	shared := w.Shared()
	w.Dead.Add(bus.DeadLetter{Message: bus.Message{ID: "e1", Type: "tradewind.dag.finished.v1", Group: "train"},
		Queue: "hook", Reason: "webhook answered 500", At: w.Clock.Now()})
	return w, job, map[string]string{
		"#/": "[data-job]", "#/plan": ".source", "#/capacity": ".pool", "#/markets": ".chart canvas", "#/clouds": ".cloud",
		"#/jobs/" + job: "[data-task]", "#/jobs/" + job + "/timeline": ".under canvas", "#/jobs/" + job + "/money": ".pane canvas",
		"#/jobs/" + job + "/story": ".story li", "#/jobs/" + job + "/plans": ".choices", "#/jobs/" + job + "/logs": ".log",
		"#/jobs/" + failed: ".log", "#/jobs/" + failed + "/tasks": "[data-task]", "#/jobs/" + failed + "/timeline": ".run",
		"#/jobs/" + failed + "/money": ".pane canvas", "#/jobs/" + failed + "/story": ".story li",
		"#/jobs/" + shared: "[data-task]", "#/jobs/" + shared + "/timeline": ".life",
		"#/jobs/" + infeasible: "[data-task]", "#/jobs/" + infeasible + "/plans": ".pane p",
		"#/jobs/" + infeasible + "/timeline": ".pane .muted", "#/jobs/" + infeasible + "/money": ".lede",
		"#/jobs/" + infeasible + "/logs": ".pane .muted",
	}
}

func TestPagesPassAxe(t *testing.T) {
	source, err := os.ReadFile(axeFile)
	if err != nil {
		t.Skip("axe-core is not installed: run scripts/web-tools.sh")
	}
	w, job, pages := furnished(t)
	b := open(t, w).visit("")
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			if width == 390 && scheme == "dark" {
				continue // same colours as the wide page
			}
			b.as(width, 900, scheme)
			for hash, shown := range pages {
				b.anew(hash).seen(shown)
				b.axe(fmt.Sprintf("%s, %s, %d px", hash, scheme, width), string(source))
			}
		}
		// Dialogs and panels that open on a page.
		b.anew("#/jobs/" + job + "/timeline").seen(`[data-bar="2.2"]`)
		b.click(`[data-bar="2.2"]`).seen(`.attempt-card`)
		eval[bool](b, `(document.querySelectorAll('.behind').forEach((d) => { d.open = true; }), true)`)
		b.axe("an attempt, "+scheme, string(source))
		b.click(`#tab-tasks`).seen(`[data-task="2"]`).click(`[data-task="2"]`).seen(`.detail`)
		b.axe("a task, "+scheme, string(source))
		b.click(`[data-action="cancel"]`).seen(`dialog`)
		b.axe("the question before a cancellation, "+scheme, string(source))
		b.anew("#/plan").seen(`.source`)
		b.write(pipeline).click(`button[type="submit"]`).
			until(`document.querySelectorAll('[data-point]').length >= 2`)
		b.axe("a plan, "+scheme, string(source))
		b.allowed = []string{"422"}
		b.write("tasks: 1").click(`button[type="submit"]`).seen(`.warning`)
		b.axe("what is wrong with a file, "+scheme, string(source))
	}
}

func TestPagesFitPhoneWidth(t *testing.T) {
	w, _, pages := furnished(t)
	b := open(t, w).as(390, 844, "light").visit("")
	for hash, shown := range pages {
		b.anew(hash).seen(shown)
		if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%s is %d px wide: %s", hash, wide, eval[string](b, `[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > 391).slice(0, 5).map((e) => e.outerHTML.slice(0, 90)).join('\n')`))
		}
	}
}

// TestTextHasEnoughContrast checks the contrast of HTML text with axe-core, and of text in drawings, which axe-core cannot check.
func TestTextHasEnoughContrast(t *testing.T) {
	w, _, pages := furnished(t)
	b := open(t, w).visit("")
	for _, scheme := range []string{"light", "dark"} {
		b.as(1280, 900, scheme)
		for hash, shown := range pages {
			b.anew(hash).seen(shown)
			for _, faint := range eval[[]string](b, contrast) {
				t.Errorf("%s, %s: %s", hash, scheme, faint)
			}
		}
	}
}
