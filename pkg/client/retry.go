package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A call is retried if the broker did not answer, or if a gateway answered because its function was
// stopped or throttled.
const (
	tries      = 5
	firstPause = 200 * time.Millisecond // doubles
)

// callWithRetry makes a call and retries it while it fails with a temporary error. All calls of the API can be
// repeated, except DELETE: in between, another user may have created something of the same name.
func (c *Client) callWithRetry(ctx context.Context, r request, call func() error) error {
	if r.method == http.MethodDelete {
		return call()
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.Multiplier = c.firstPause, 2
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = call()
		if last != nil && !isTemporary(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(tries))
	if err != nil && last != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return last // as the API returned it
	}
	return err
}

// isTemporary reports whether an error may be temporary. A refused connection or an unknown host name is not.
func isTemporary(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
	default:
		return false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	var name *net.DNSError
	return errors.Is(err, ErrUnreachable) && !errors.As(err, &name) && !errors.Is(err, context.DeadlineExceeded)
}
