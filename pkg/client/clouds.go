package client

import (
	"context"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// CheckClouds has a broker ask the clouds that it buys on.
func (c *Client) CheckClouds(ctx context.Context) (*apitypes.CloudReports, error) {
	var out apitypes.CloudReports
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/clouds"}, &out)
}
