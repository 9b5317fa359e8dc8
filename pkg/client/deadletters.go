package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// DeadLetters lists up to limit dead letters, the oldest first: those of one function's queue, or of all if queue is
// empty.
func (c *Client) DeadLetters(ctx context.Context, queue string, limit int) (*apitypes.DeadLetterList, error) {
	var out apitypes.DeadLetterList
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if queue != "" {
		q.Set("queue", queue)
	}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/deadletters", query: q}, &out)
}

// Redrive makes the bus deliver dead letters again.
func (c *Client) Redrive(ctx context.Context, which apitypes.Redrive) (*apitypes.Redriven, error) {
	body, err := json.Marshal(which)
	if err != nil {
		return nil, err
	}
	var out apitypes.Redriven
	return &out, c.call(ctx, request{
		method: http.MethodPost, path: "/v1/deadletters/redrive", body: body, contentType: "application/json",
	}, &out)
}
