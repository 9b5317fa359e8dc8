package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/web"
)

// simulation shows jobs as if their machines were simulated, in compressed time.
type simulation struct{ api.JobViews }

func (s simulation) Jobs(ctx context.Context, after string, limit int) ([]apitypes.JobView, string, error) {
	list, next, err := s.JobViews.Jobs(ctx, after, limit)
	for i := range list {
		list[i].Simulated, list[i].TimeScale = true, 0.001
	}
	return list, next, err
}

func (s simulation) JobSince(ctx context.Context, id string, was *view.Look) (*view.Look, error) {
	l, err := s.JobViews.JobSince(ctx, id, was)
	if l != nil {
		l.Simulated, l.TimeScale = true, 0.001
	}
	return l, err
}

func TestSimulatedJobHasBadge(t *testing.T) {
	h, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w := apitest.New(t, func(c *api.Config) {
		c.Dashboard, c.Broker.JobViews, c.Simulated = h, simulation{c.Broker.JobViews}, true
	})
	job := midway(w)
	b := open(t, w).visit("#/jobs/" + job).until(`document.querySelectorAll('[data-task]').length === 6`)
	const want = "SIMULATED, nothing is bought; time runs 1,000 times faster"
	if got := eval[string](b, `document.querySelector('.badge[data-simulated]').innerText`); got != want {
		t.Errorf("the badge says %q", got)
	}
	if cost := eval[string](b, `document.querySelectorAll('.tile .value')[1].innerText`); !strings.HasSuffix(cost, " est. spent") {
		t.Errorf("the cost is %q, not an estimate", cost)
	}
	open(t, w).visit("#/capacity").until(`document.querySelector('[data-label="This month"]')?.innerText.endsWith(' est.')`)
	open(t, w).visit("#/").until(`document.querySelector('[data-label="Cost"]')?.innerText.endsWith(' est.')`)

	real := deployed(t)
	b = open(t, real).visit("#/jobs/" + midway(real)).until(`document.querySelectorAll('[data-task]').length === 6`)
	if eval[bool](b, `document.querySelector('.badge[data-simulated]').offsetWidth > 0`) {
		t.Error("a job on bought machines has the badge")
	}
}
