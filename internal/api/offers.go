package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// OffersFunc returns the machines that fit a task of a job that is not submitted, with the current blocks.
type OffersFunc func(ctx context.Context, spec *dag.Job, task int) ([]apitypes.FittingOffer, error)

func (a *API) offersRoute() {
	userRoute(a, huma.Operation{
		OperationID: "offers", Method: http.MethodPost, Path: "/v1/offers", Tags: []string{"jobs"},
		Summary: "List the machine types that fit a task of a job file", RequestBody: fileRequest(),
		Description: "For estimators of run times: a client computes a time for each offer, and writes it into the " +
			"file under the offer's `timeKey`. Nothing is stored.",
	}, a.offers)
}

type offersInput struct {
	fileBody
	Name string `query:"name" maxLength:"1024" doc:"Name of the file, as for submit"`
	Task string `query:"task" maxLength:"1024" doc:"Name of the task; may be missing if the file has one task"`
}

func (a *API) offers(ctx context.Context, in *offersInput) (*body[apitypes.FittingOffers], error) {
	if a.cfg.Offers == nil {
		return nil, problem(http.StatusNotImplemented, "this broker plans only submitted jobs, and lists no offers")
	}
	spec, _, done, err := a.readFile(ctx, in.Name, &in.fileBody, &Limits{})
	if err != nil {
		return nil, err
	}
	defer done()
	task, err := taskNamed(spec, in.Task)
	if err != nil {
		return nil, err
	}
	offers, err := a.cfg.Offers(ctx, spec, task)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.FittingOffers]{Body: apitypes.FittingOffers{Offers: orEmpty(offers)}}, nil
}

// taskNamed returns the index of a task, or of the only task if no name is given.
func taskNamed(spec *dag.Job, name string) (int, error) {
	if name == "" && len(spec.Tasks) == 1 {
		return 0, nil
	}
	names := make([]string, len(spec.Tasks))
	for i := range spec.Tasks {
		if names[i] = spec.Tasks[i].Name; names[i] == name {
			return i, nil
		}
	}
	reason, hint := "the job has no task "+fault.Quote(name), fault.DidYouMean(name, names)
	if name == "" {
		reason, hint = "the job has several tasks", "name one with ?task="
	}
	p := problem(http.StatusUnprocessableEntity, reason)
	p.Hint = hint
	p.Errors = []apitypes.ErrorDetail{{Location: "query.task", Message: reason, Value: name}}
	return 0, p
}
