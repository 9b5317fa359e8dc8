package client

import (
	"context"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// CheckClouds makes the broker check the clouds on which it buys.
func (c *Client) CheckClouds(ctx context.Context) (*apitypes.CloudReports, error) {
	var out apitypes.CloudReports
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/clouds"}, &out)
}
