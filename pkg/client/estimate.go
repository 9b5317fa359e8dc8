package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Estimator returns how long a task runs on a machine; 0 if the machine does not fit.
type Estimator func(apitypes.FittingOffer) time.Duration

// Offers returns the machine types that fit a task of a job file, each at its cheapest place. The name is as for
// Submit; the name of the task may be empty if the file has one task.
func (c *Client) Offers(ctx context.Context, name string, file []byte, task string) ([]apitypes.FittingOffer, error) {
	q := url.Values{}
	for key, value := range map[string]string{"name": name, "task": task} {
		if value != "" {
			q.Set(key, value)
		}
	}
	var out apitypes.FittingOffers
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/offers", query: q, body: file,
		contentType: "application/octet-stream"}, &out)
	return out.Offers, err
}

// Estimate sets a function that computes how long the task runs, in place of Time and TimeOn.
// JobFor calls it once for each machine type that fits the task, at its cheapest place. Other
// machine types, and those for which the function returns 0, do not fit.
func (t *Task) Estimate(f Estimator) *Task { t.estimate = f; return t }

// JobFor is Job for a job with estimators. It asks the broker which machines fit the tasks, and
// returns the job with the resulting times. If no machine fits a task, the task has no time, and
// its plan states the reason. If an estimator returns no time for any machine, the error is a
// *dag.Error.
func (b *Builder) JobFor(ctx context.Context, c *Client) (*dag.Job, error) {
	j, err := b.build()
	if err != nil {
		return nil, err
	}
	known := map[string][]apitypes.FittingOffer{} // by the request
	for i, t := range b.task {
		if t.estimate == nil {
			continue
		}
		if !t.t.Time.Unknown() {
			return nil, t.within("time", fault.New("is a time and an estimator", "remove one of them"))
		}
		asked, err := json.Marshal(j.Tasks[i].Resources)
		if err != nil {
			return nil, err
		}
		offers, have := known[string(asked)]
		if !have {
			if offers, err = c.fitting(ctx, j, i); err != nil {
				return nil, err
			}
			known[string(asked)] = offers
		}
		if j.Tasks[i].Time, err = estimated(t.estimate, offers); err != nil {
			return nil, t.within("time", err)
		}
	}
	return j, j.Validate()
}

// fitting returns the machines that fit the resources of a task.
func (c *Client) fitting(ctx context.Context, j *dag.Job, task int) ([]apitypes.FittingOffer, error) {
	t := &j.Tasks[task]
	file, err := dag.Marshal(&dag.Job{Name: j.Name, Objective: j.Objective, Infeasible: j.Infeasible, Format: j.Format,
		Regions: j.Regions, Tasks: []dag.Task{{Name: t.Name, Run: "true", Nodes: 1, Resources: t.Resources}}})
	if err != nil {
		return nil, err
	}
	return c.Offers(ctx, j.Name+".yaml", file, t.Name)
}

// estimated returns an estimator's times as a table.
func estimated(f Estimator, offers []apitypes.FittingOffer) (e dag.TimeEstimate, err error) {
	if len(offers) == 0 {
		return e, nil
	}
	e = dag.TimeEstimate{Only: true, On: map[string]time.Duration{}}
	for _, o := range offers {
		switch d := f(o); {
		case d < 0:
			return e, fault.New(fmt.Sprintf("the estimator returned %s for %s", d, o.TimeKey),
				"return 0 for a machine that does not fit")
		case d > 0:
			e.On[o.TimeKey] = max(d.Round(time.Millisecond), time.Millisecond)
		}
	}
	if len(e.On) == 0 {
		return e, fault.New(fmt.Sprintf("the estimator returned no time for any of the %d machine types that fit",
			len(offers)), "return one, or change the resources")
	}
	return e, nil
}
