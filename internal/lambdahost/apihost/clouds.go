package apihost

import (
	"context"
	"encoding/json"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// clouds asks the function refresh to check the clouds: it calls all of them anyway, and api has no permissions there.
func clouds(others far.Functions) api.CloudsFunc {
	call := others.Function(events.FnRefresh)
	return func(ctx context.Context) (out apitypes.CloudReports, err error) {
		answer, err := call(ctx, []byte(lambdahost.CheckMessage))
		if err == nil {
			err = json.Unmarshal(answer, &out)
		}
		return out, err
	}
}
