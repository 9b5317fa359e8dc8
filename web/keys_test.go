package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// With the keyboard alone, the written text stays and the focus does not jump.
func TestPlanAndSubmitWithKeyboardOnly(t *testing.T) {
	b := open(t, planning(t)).visit("#/plan").seen(`.source`)
	b.write(pipeline).focus(`.skip`).run(chromedp.KeyEvent(kb.Enter)).
		until(`document.activeElement.id === 'main' && location.hash === '#/plan'`)
	if text := eval[string](b, `document.querySelector('.source').value`); text != pipeline {
		t.Errorf("after the skip link, the file is %q", text)
	}
	b.focus(`button[type="submit"]`).run(chromedp.KeyEvent(kb.Enter)).counted(`.plan-table > tbody > tr`, 4)
	b.until(`document.activeElement.textContent === 'Plan'`)
	b.run(chromedp.KeyEvent(kb.Tab)).until(`document.activeElement.textContent === 'Submit'`)
	b.run(chromedp.KeyEvent(kb.Enter)).until(`location.hash.startsWith('#/jobs/reads-to-variants')`)
}
