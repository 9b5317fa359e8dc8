package clouds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Control planes of a new account: every throttledEach-th request of each cloud is refused, and new machines are
// missing from the first lists.
const (
	throttledEach = 20
	lateLists     = 2
)

// refusals are the answers of throttled control planes (Compute Engine, "Rate quotas": rateLimitExceeded; "Throttling
// Resource Manager requests": 429 with Retry-After; Lambda Cloud API, "Rate limiting": 429).
var refusals = map[string]struct{ body, retry string }{
	"gcp": {body: `{"error":{"code":429,"message":"Quota exceeded for quota metric 'Queries'",` +
		`"errors":[{"domain":"usageLimits","reason":"rateLimitExceeded","message":"Quota exceeded"}],` +
		`"status":"RESOURCE_EXHAUSTED"}}`},
	"azure":  {body: `{"error":{"code":"TooManyRequests","message":"The request was throttled."}}`, retry: "1"},
	"lambda": {body: `{"error":{"code":"global/rate-limit-exceeded","message":"Too many requests."}}`, retry: "1"},
}

// throttle refuses some requests to a cloud's control plane. It passes on requests for keys, certificates and tokens.
func (w *World) throttle(cloud string, next http.Handler) http.Handler {
	var seen atomic.Int64
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		control := r.Header.Get("Authorization") != "" && !strings.Contains(r.URL.Path, "token")
		if !control || seen.Add(1)%throttledEach != 0 {
			next.ServeHTTP(out, r)
			return
		}
		w.throttled.Add(1)
		answer := refusals[cloud]
		out.Header().Set("Content-Type", "application/json")
		if answer.retry != "" {
			out.Header().Set("Retry-After", answer.retry)
		}
		out.WriteHeader(http.StatusTooManyRequests)
		_, _ = out.Write([]byte(answer.body)) // the function may have been killed
	})
}

const early = `apiVersion: tradewind/v1
name: early
budget: 5 USD
tasks:
  hello:
    run: echo "ran after the rights took effect"
    resources: {cpus: 4, cloud: gcp, market: on-demand}
    time: 5m
`

// propagated: a right that was granted a moment ago does not exist yet for Google. The job waits, and a check that
// passes lifts the block (IAM, "Access change propagation": two minutes, potentially seven or longer).
func (s *Story) propagated(ctx context.Context) (said string, err error) {
	const right = "compute.instances.create"
	s.World.Google.Deny(right, true)
	if s.early, err = s.submit(ctx, "early", early); err != nil {
		return "", err
	}
	err = until(ctx, func() error {
		d, err := s.client.Job(ctx, s.early)
		if err != nil {
			return err
		}
		if d.State.Finished() {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		for _, a := range d.Attempts {
			if a.Outcome == apitypes.OutcomeRefused {
				said = a.Reason
				return nil
			}
		}
		return errors.New("no launch was refused")
	})
	s.World.Google.Deny(right, false)
	if err != nil {
		return "", err
	}
	granted := time.Now()
	return said, until(ctx, func() error {
		if _, err := s.client.CheckClouds(ctx); err != nil {
			return err
		}
		d, err := s.client.Job(ctx, s.early)
		if err != nil {
			return err
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		said += fmt.Sprintf("\nran %.0f s after the right took effect", time.Since(granted).Seconds())
		return nil
	})
}
