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

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Errors after which asking again is of no use, wrapped with the broker's words.
var (
	// ErrRefused: the token is not, or no longer, good.
	ErrRefused = errors.New("pool: token refused")
	// ErrRemoved: the pool is gone, or the machine was removed from it.
	ErrRemoved = errors.New("pool: removed")
	// ErrTaken: another machine, or another process, has the machine's name.
	ErrTaken = errors.New("pool: the name is taken")
	// ErrReport: the broker cannot make sense of what it is told.
	ErrReport = errors.New("pool: refused")
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
	// The API does not redirect; the token goes to nobody else.
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{http: &still, endpoint: strings.TrimSuffix(endpoint, "/")}
}

// join trades a join token for the machine's own.
func (c *client) join(ctx context.Context, pool, machine, token string) (apitypes.PoolToken, error) {
	var out apitypes.PoolToken
	return out, c.post(ctx, wire.PathPoolJoin(pool, machine), token, struct{}{}, &out)
}

// sync tells what there is, and returns what should be.
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
	if err := judge(res, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("pool: the answer of %s is not the API's: %w", path, err)
	}
	return nil
}

// judge makes an error of an answer that is no acceptance.
func judge(res *http.Response, text []byte) error {
	var problem struct {
		Detail string
		Errors []struct{ Location, Message string }
	}
	_ = json.Unmarshal(text, &problem) // or it comes from somebody else, and is quoted
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

// lastWord says whether asking again is of no use.
func lastWord(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrRemoved) || errors.Is(err, ErrTaken) ||
		errors.Is(err, ErrReport)
}
