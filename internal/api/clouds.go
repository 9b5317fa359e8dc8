package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// CloudsFunc checks the clouds on which a broker buys.
type CloudsFunc func(context.Context) (apitypes.CloudReports, error)

// Unblocking returns a check that also calls unblock, with the clouds on which machines can be bought.
func Unblocking(check CloudsFunc, unblock func(ctx context.Context, clouds ...string) error) CloudsFunc {
	return func(ctx context.Context) (apitypes.CloudReports, error) {
		reports, err := check(ctx)
		if err != nil {
			return reports, err
		}
		var open []string
		for _, r := range reports.Clouds {
			if !r.Played && !slices.ContainsFunc(r.Missing, func(l apitypes.CloudLack) bool { return l.Fatal }) {
				open = append(open, r.Name)
			}
		}
		if len(open) == 0 {
			return reports, nil
		}
		return reports, unblock(ctx, open...)
	}
}

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
