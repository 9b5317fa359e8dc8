package agent

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// closedEndpoint answers with an error status until it opens, and records the time of each call.
type closedEndpoint struct {
	status     int
	retryAfter string
	opens      time.Time
	calls      []time.Time
}

func (e *closedEndpoint) RoundTrip(*http.Request) (*http.Response, error) {
	e.calls = append(e.calls, time.Now())
	res := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: io.NopCloser(&bytes.Buffer{})}
	if time.Now().Before(e.opens) {
		if res.StatusCode = e.status; e.status == 0 {
			return nil, errors.New("connection refused")
		}
		res.Header.Set("Retry-After", e.retryAfter)
	}
	return res, nil
}

// pauses returns the times between calls.
func (e *closedEndpoint) pauses() (all []time.Duration) {
	for i := range e.calls[1:] {
		all = append(all, e.calls[i+1].Sub(e.calls[i]))
	}
	return all
}

func reportTo(t *testing.T, e *closedEndpoint) error {
	t.Helper()
	cfg, err := Config{Endpoint: "https://broker.invalid", Token: "t", Dir: t.TempDir(), Address: "here",
		HTTPClient: &http.Client{Transport: e}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newClient(cfg).report(t.Context(), wire.Report{ID: "1"})
}

// TestReportOutlastsOutageOfHalfAnHour: during an outage of the broker, the agent keeps trying, with random pauses of
// at most 23 seconds.
func TestReportOutlastsOutageOfHalfAnHour(t *testing.T) {
	for _, status := range []int{0, http.StatusTooManyRequests, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			e := &closedEndpoint{status: status, opens: time.Now().Add(30 * time.Minute)}
			if err := reportTo(t, e); err != nil {
				t.Fatalf("%d: %v", status, err)
			}
			late := e.pauses()[len(e.pauses())/2:]
			if len(e.calls) > 200 || slices.Max(late) > 23*time.Second || slices.Max(late)-slices.Min(late) < 4*time.Second {
				t.Errorf("%d: %d calls, in pauses of %v to %v", status, len(e.calls), slices.Min(late), slices.Max(late))
			}
		})
	}
}

// TestAnyAnswerEndsOutage: a call fails for nearly an hour, but another call was answered in between. The time until
// the agent gives up counts from that answer. A call that always fails is given up even though others are answered.
func TestAnyAnswerEndsOutage(t *testing.T) {
	for name, want := range map[string]error{"it recovers": nil, "it never recovers": ErrUnreachable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(Config{Endpoint: "https://broker.invalid", Token: "t", Patience: wire.Patience})
				began, broken := time.Now(), &closedEndpoint{opens: time.Now().Add(58 * time.Minute)}
				if want != nil {
					broken.opens = began.Add(24 * time.Hour)
				}
				c.http = &http.Client{Transport: byPath{wire.PathReport: broken, wire.PathGrants: &closedEndpoint{}}}
				done := make(chan error, 1)
				go func() { done <- c.report(t.Context(), wire.Report{ID: "1"}) }()
				for range 3 {
					time.Sleep(29 * time.Minute)
					if err := c.ask(t.Context(), wire.PathGrants, wire.Wants{}, nil); err != nil {
						t.Error(err)
					}
				}
				select {
				case err := <-done:
					if !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				default:
					t.Errorf("after %v it still tries", time.Since(began))
				}
			})
		})
	}
}

// byPath sends each call to the endpoint of its path.
type byPath map[string]*closedEndpoint

func (b byPath) RoundTrip(r *http.Request) (*http.Response, error) { return b[r.URL.Path].RoundTrip(r) }

// TestRetryAfterIsRespected: a refusal says when to try again. Each agent waits that time and a random time more.
func TestRetryAfterIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &closedEndpoint{status: http.StatusServiceUnavailable, retryAfter: "20", opens: time.Now().Add(5 * time.Minute)}
		if err := reportTo(t, e); err != nil {
			t.Fatal(err)
		}
		all := e.pauses()
		if slices.Min(all) < 20*time.Second || slices.Max(all) > 25*time.Second || slices.Min(all) == slices.Max(all) {
			t.Errorf("pauses of %v", all)
		}
	})
}
