package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// CloudsFunc checks the clouds on which a broker buys.
type CloudsFunc func(context.Context) (apitypes.CloudReports, error)

func (a *API) cloudRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "check-clouds", Method: http.MethodGet, Path: "/v1/clouds", Tags: []string{"operations"},
		Summary: "Check the clouds, with the broker's credentials, for whether machines can be bought there",
	}, a.checkClouds)
}

func (a *API) checkClouds(ctx context.Context, _ *struct{}) (*body[apitypes.CloudReports], error) {
	if a.cfg.Clouds == nil {
		return nil, problem(http.StatusNotImplemented, "this broker does not check its clouds; "+
			"run `tradewind cloud check` on the broker's computer")
	}
	reports, err := a.cfg.Clouds(ctx)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.CloudReports]{Body: reports}, nil
}
