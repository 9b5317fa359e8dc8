package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Errors after which a retry does not help, wrapped with the broker's message.
var (
	// ErrRefused means that the token is not valid, or no longer valid.
	ErrRefused = errors.New("pool: token refused")
	// ErrRemoved means that the pool was deleted or the machine was removed from it.
	ErrRemoved = errors.New("pool: removed")
	// ErrTaken means that another machine or process has the machine's name.
	ErrTaken = errors.New("pool: the name is taken")
	// ErrReport means that the broker rejects the report as invalid.
	ErrReport = errors.New("pool: report refused")
)

const (
	callWithin = 30 * time.Second
	maxAnswer  = 1 << 20
)

// client calls the broker.
type client struct {
	http     *http.Client
	endpoint string
}

func newClient(c *http.Client, endpoint string) *client {
	if c == nil {
		c = &http.Client{}
	}
	still := *c
	// The API does not redirect; the token must not be sent to another server.
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{http: &still, endpoint: strings.TrimSuffix(endpoint, "/")}
}

// join exchanges a join token for the machine's own token.
func (c *client) join(ctx context.Context, pool, machine, token string) (apitypes.PoolToken, error) {
	var out apitypes.PoolToken
	return out, c.post(ctx, wire.PathPoolJoin(pool, machine), token, struct{}{}, &out)
}

// sync reports the machine's state, and returns the agents that should run.
func (c *client) sync(ctx context.Context, pool, machine, token string, r wire.PoolReport) (wire.PoolOrders, error) {
	var out wire.PoolOrders
	return out, c.post(ctx, wire.PathPoolSync(pool, machine), token, r, &out)
}

func (c *client) post(ctx context.Context, path, token string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := checkResponse(res, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("pool: the answer to %s is not valid: %w", path, err)
	}
	return nil
}

// checkResponse returns an error for an answer that is not a success, otherwise nil.
func checkResponse(res *http.Response, text []byte) error {
	var problem struct {
		Detail string
		Errors []struct{ Location, Message string }
	}
	_ = json.Unmarshal(text, &problem) // if it is not the API's JSON, the text is quoted below
	for _, e := range problem.Errors {
		problem.Detail += "; " + e.Location + ": " + e.Message
	}
	if problem.Detail == "" {
		problem.Detail = fmt.Sprintf("%s: %.200q", res.Status, text)
	}
	var kind error
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		kind = ErrRefused
	case http.StatusNotFound, http.StatusGone:
		kind = ErrRemoved
	case http.StatusConflict:
		kind = ErrTaken
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		kind = ErrReport
	default:
		if res.StatusCode >= 200 && res.StatusCode < 300 {
			return nil
		}
		return fmt.Errorf("pool: %s", problem.Detail)
	}
	return fmt.Errorf("%w: %s", kind, problem.Detail)
}

// isFinal reports whether err is final: another try would not help.
func isFinal(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrRemoved) || errors.Is(err, ErrTaken) ||
		errors.Is(err, ErrReport)
}
