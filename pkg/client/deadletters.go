package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tradewind-broker/tradewind/pkg/api"
)

// DeadLetters lists up to limit events that were given up, of one function's queue or, when that is empty, of all. The
// oldest come first.
func (c *Client) DeadLetters(ctx context.Context, queue string, limit int) (*api.DeadLetterList, error) {
	var out api.DeadLetterList
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if queue != "" {
		q.Set("queue", queue)
	}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/deadletters", query: q}, &out)
}

// Redrive has events delivered again that were given up.
func (c *Client) Redrive(ctx context.Context, which api.Redrive) (*api.Redriven, error) {
	body, err := json.Marshal(which)
	if err != nil {
		return nil, err
	}
	var out api.Redriven
	return &out, c.call(ctx, request{
		method: http.MethodPost, path: "/v1/deadletters/redrive", body: body, contentType: "application/json",
	}, &out)
}
