package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// MaxPassed bounds the body of a request that is passed on, in bytes. It is what API Gateway takes.
const MaxPassed = 10 << 20

// ErrTooLarge says that the body of a request has more than MaxPassed bytes.
var ErrTooLarge = errors.New("the request is too large")

// Pass sends somebody else's request to the broker with this client's authority, in the place of whatever authority it
// had, and returns the answer as it is, good or not. Of the request it takes the method, path, query, body, and the
// headers that say what the body is, what is accepted and which request it is. The error wraps ErrUnreachable or
// ErrTooLarge.
func (c *Client) Pass(ctx context.Context, r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPassed+1))
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if len(body) > MaxPassed { // signed as a whole, so it is held as a whole
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
