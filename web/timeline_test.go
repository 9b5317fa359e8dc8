package web_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
)

// priced records prices of the World's markets since a time.
func priced(w *apitest.World, since time.Time) {
	wave := []float64{0.92, 0.95, 1.21, 1.34, 0.97, 0.9, 0.88, 1.02, 1.1, 0.93}
	for i := 0; since.Before(w.Clock.Now()); i, since = i+1, since.Add(13*time.Minute) {
		w.Tick(
			events.PriceTick{Offer: "aws/us-east-1/use1-az1/p3.2xlarge", USD: wave[i%10], Since: since},
			events.PriceTick{Offer: "gcp/us-central1/us-central1-a/n1-standard-8+V100:1",
				USD: 0.9 * wave[(i+3)%10], Since: since},
			events.PriceTick{Offer: "gcp/us-central1/us-central1-f/c3-standard-8", USD: 0.16 * wave[(i+5)%10],
				Since: since},
			events.PriceTick{Offer: "aws/us-east-2/use2-az3/c7i.2xlarge", USD: 0.13 * wave[(i+7)%10], Since: since},
		)
	}
}

func TestTimelineShowsAttemptsByPlace(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	priced(w, apitest.Start().Add(-time.Hour))
	b := open(t, w).visit("#/jobs/" + job + "/timeline").
		until(`document.querySelectorAll('.run[data-bar]').length >= 6`)
	bars := eval[[]string](b, `[...document.querySelectorAll('.run[data-bar]')].map((e) => e.getAttribute('aria-label'))`)
	for _, part := range []string{"prepare-a, attempt 1", "refused", "train, attempt 2", "preempted", "running"} {
		if !strings.Contains(strings.Join(bars, "\n"), part) {
			t.Errorf("no bar says %q: %q", part, bars)
		}
	}
	// Bars begin at the right time: the bar of the second attempt begins where that of the first ends.
	if gap := eval[float64](b, `(() => { const r = (s) => document.querySelector('[data-bar="'+s+'"]').getBoundingClientRect(); return Math.abs(r('2.2').left - r('2.1').right); })()`); gap > 12 {
		t.Errorf("the second attempt of train begins %.1f pixels from where the first one ended", gap)
	}
	// The two axes have the same ticks at the same positions.
	b.counted(`.under .u-over`, 2)
	for _, width := range []int64{1280, 1100, 700, 390} {
		b.as(width, 900, "light").
			until(`Math.abs(document.querySelector('.under .u-over').getBoundingClientRect().width - (document.querySelector('.lanes').offsetWidth - document.querySelector('.under .u-over').offsetLeft - 16)) < 2`)
		if apart := eval[float64](b, `(() => { const plot = document.querySelector('.under .u-over').getBoundingClientRect();
			const own = document.querySelector('.lanes').getBoundingClientRect(); const gutter = parseFloat(getComputedStyle(document.querySelector('.timeline')).getPropertyValue('--gutter'));
			return Math.abs(plot.left - own.left - gutter) + Math.abs(plot.right - own.right + 16); })()`); apart > 2 {
			t.Errorf("at %d px the axes are %.1f px apart", width, apart)
		}
	}
	b.as(1280, 900, "light")
	b.until(`document.querySelectorAll('.under canvas').length === 2 &&
		document.querySelectorAll('.under .keys li').length >= 2`)
	// Each line of the prices uses at least a third of the height of its chart's axis.
	spans := eval[[][]float64](b, `(async () => {
		const { groups } = await import('/assets/js/prices.js');
		return groups([[0.79, 1.2], [0.13, 0.21], [0.88, 1.34], [0.11, 0.16]].map(([lo, top]) => ({ lo, top }))).map((g) => {
			const [from, to] = [0.8 * Math.min(...g.map((l) => l.lo)), 1.08 * Math.max(...g.map((l) => l.top))];
			return g.map((l) => (l.top - l.lo) / (to - from));
		});
	})()`)
	if len(spans) != 2 || slices.Min(slices.Concat(spans...)) < 0.3 {
		t.Errorf("the lines of the charts use these parts of their axes: %.2f", spans)
	}
	b.click(`[data-bar="2.2"]`).seen(`.attempt-card`)
	said := eval[string](b, `document.querySelector('.attempt-card').innerText`)
	for _, part := range []string{"the cloud took its machines", "Plan", "resumed from a checkpoint, with 42%"} {
		if !strings.Contains(said, part) {
			t.Errorf("why it moved lacks %q: %s", part, said)
		}
	}
	// The zoom buttons change both.
	wide := eval[float64](b, `document.querySelector('[data-bar="2.1"]').offsetWidth`)
	b.click(`button[aria-label="Show less time"]`)
	if now := eval[float64](b, `document.querySelector('[data-bar="2.1"]')?.offsetWidth ?? 9999`); now < 1.2*wide {
		t.Errorf("zooming in drew the first attempt of train %.0f pixels wide, from %.0f", now, wide)
	}
}

// Tasks that share a machine are on its lanes, above its boot and the time for which it is paid; the table has its utilisation.
func TestTimelineShowsSharedMachines(t *testing.T) {
	w := deployed(t)
	job := w.Shared()
	b := open(t, w).visit("#/jobs/" + job + "/timeline").seen(`.by-machine .life.up`)
	lanes := eval[[]string](b, `[...document.querySelectorAll('.lane')].map((l) =>
		l.getAttribute('aria-label') + ' ' + l.querySelector('.used')?.textContent + ': ' + [...l.querySelectorAll('.run-name')].map((r) => r.textContent))`)
	want := []string{"c7i.2xlarge 65%: shrink-0,shrink-2", "c7i.2xlarge undefined: shrink-1", "c3-standard-8 42%: shrink-3"}
	if !slices.Equal(lanes, want) {
		t.Errorf("the lanes are %q, want %q", lanes, want)
	}
	// The bars follow the boot: it takes 2 of the 20 minutes, and the last task ends 2 minutes before the machine.
	if apart := eval[float64](b, `(() => {
		const r = (s) => document.querySelector('.lane ' + s).getBoundingClientRect();
		const minute = (r('.up').right - r('.booting').left) / 20;
		return Math.max(Math.abs(r('.booting').width - 2 * minute), Math.abs(r('[data-bar="0.1"]').left - r('.booting').right),
			Math.abs(r('.up').right - 2 * minute - document.querySelector('[data-bar="2.1"]').getBoundingClientRect().right));
	})()`); apart > 2 {
		t.Errorf("the boot, the bars and the end are %.1f px from where they belong", apart)
	}
	b.click(`.used-machines summary`).counted(`.used-machines tbody tr`, 2)
	if row := eval[string](b, `document.querySelector('.used-machines tbody tr').innerText`); !strings.Contains(row, "65%") || !strings.Contains(row, "$0.0043\t$0.0107") {
		t.Errorf("the first machine is %q", row)
	}
	b.click(`[data-bar="0.1"]`).until(`document.querySelector('.attempt-card').innerText.includes('the machine w5-1 with 2 other tasks')`)
	b.click(`#tab-money`).until(`document.querySelector('.pane tbody').innerText.includes('aws us-east-2')`)
	if spent := eval[string](b, `document.querySelector('.lede b').textContent`); spent != "$0.0719" {
		t.Errorf("it has spent %s", spent)
	}
}

func TestMoneyTabComparesPlanAndOnDemand(t *testing.T) {
	w := deployed(t)
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job).seen(`[data-task]`)
	spent := strings.TrimSuffix(eval[string](b, `document.querySelectorAll('.tile .value')[1].innerText`), " spent")
	b.click(`#tab-money`).counted(`.pane canvas`, 1)
	said := eval[string](b, `document.querySelector('.lede').innerText`)
	if !strings.Contains(said, spent+" spent") || !strings.Contains(said, "on demand") || !strings.Contains(said, "first plan") {
		t.Errorf("the money says %q, the tile %q", said, spent)
	}
	eval[bool](b, `(document.querySelector('.pane .behind summary').click(), true)`)
	b.until(`document.querySelectorAll('.pane .behind tbody tr').length > 100`)
	last := eval[string](b, `document.querySelector('.pane .behind tbody tr:last-child td').innerText`)
	if last != spent {
		t.Errorf("the curve ends at %s, the job has spent %s", last, spent)
	}
	eval[bool](b, `(document.querySelector('.pane .behind summary').click(), true)`)
}

func TestTimelineOf10000TasksHasFewElements(t *testing.T) {
	w := deployed(t)
	job := w.Large(10_000, 60)
	b := open(t, w).visit("#/jobs/" + job + "/timeline").until(`document.querySelectorAll('.run[data-bar]').length > 0`)
	counts := eval[struct{ Bars, All int }](b, `({ Bars: document.querySelectorAll('.run[data-bar]').length, All: document.querySelectorAll('*').length })`)
	if counts.Bars > 2500 || counts.All > 8000 {
		t.Errorf("the page has %d bars and %d elements", counts.Bars, counts.All)
	}
	t.Logf("%d bars, %d elements", counts.Bars, counts.All)
}
