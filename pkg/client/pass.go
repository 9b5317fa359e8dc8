package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// MaxPassed is the maximum size of the body of a forwarded request, in bytes: the limit of API Gateway.
const MaxPassed = 10 << 20

// ErrTooLarge means that the body of a request has more than MaxPassed bytes.
var ErrTooLarge = errors.New("the request is too large")

// Pass forwards another client's request to the broker with this client's credentials instead of the original ones. It
// returns the response as it is, whatever its status. It forwards the method, path, query, body, and the headers
// Accept, Content-Type and Idempotency-Key. The error wraps ErrUnreachable or ErrTooLarge.
func (c *Client) Pass(ctx context.Context, r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPassed+1))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(body) > MaxPassed { // the signature needs the whole body in memory
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, MaxPassed)
	}
	target := c.base + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(body)) //nolint:gosec // the broker
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.base, err)
	}
	for _, name := range []string{"Accept", "Content-Type", "Idempotency-Key"} {
		if v := r.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	res, err := c.http.Do(req) //nolint:gosec // the broker
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return res, nil
}
