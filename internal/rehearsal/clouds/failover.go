package clouds

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/tradewind-broker/tradewind/internal/client"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
)

// hopWithin is how long one job may take to its launch on the second cloud.
const hopWithin = 2 * time.Minute

// Failover has n jobs refused by Azure, one after the other, which each goes on to Google Cloud by the deployed
// functions. It returns the time from each refusal's answer to the next call for a machine: what is left of the first
// launch is removed in it, the failure recorded, the plan made anew.
func Failover(ctx context.Context, o account.Options, n int) (took []time.Duration, err error) {
	w, err := open(ctx, o, n)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	w.Azure.Dry(arm.Stock{Location: azureRegion})
	s := &Story{World: w}
	s.client = client.NewSigned(w.API, account.Region, credentials.StaticCredentialsProvider{Value: w.User})
	for i := range n {
		t, err := s.hop(ctx, i)
		if err != nil {
			return took, fmt.Errorf("job %d: %w", i, err)
		}
		took = append(took, t)
	}
	return took, nil
}

func (s *Story) hop(ctx context.Context, i int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, hopWithin)
	defer cancel()
	name := fmt.Sprintf("hop-%d", i)
	id, err := s.submit(ctx, name, fmt.Sprintf("apiVersion: tradewind/v1\nname: %s\ntasks: {a: {run: sleep 600, "+
		"time: 1h, resources: {anyOf: [{cloud: azure, instanceType: %s}, "+
		"{cloud: gcp, instanceType: n2-standard-4}]}}}\n", name, refusedType(i)))
	if err != nil {
		return 0, err
	}
	select {
	case took = <-s.World.watch.next:
	case <-ctx.Done():
		d, _ := s.client.Job(context.WithoutCancel(ctx), id)
		return 0, fmt.Errorf("%w: no launch after a refusal: %+v", ctx.Err(), d)
	}
	if _, err := s.client.Cancel(ctx, id, "measured"); err != nil {
		return 0, err
	}
	return took, until(ctx, func() error { // or its machine takes the next one's processor
		d, err := s.client.Job(ctx, id)
		if err == nil && !d.State.Over() {
			err = fmt.Errorf("the job is %s", d.State)
		}
		return err
	})
}

// unavailable are types that Azure's catalogue has, one a job, as a refusal blocks its type for a while.
func unavailable(n int) (lines []line) {
	for i := range n {
		lines = append(lines, line{
			cloud: "azure", region: azureRegion, kind: refusedType(i), vcpu: 4, gib: 16, usd: 0.05,
		})
	}
	return lines
}

func refusedType(i int) string { return fmt.Sprintf("Standard_R%d", i) }

// watch measures the time from a refusal to the next call for a machine.
type watch struct {
	next chan time.Duration

	mu      sync.Mutex
	refused time.Time
}

func newWatch() *watch { return &watch{next: make(chan time.Duration, 1)} }

// refuses sees a cloud's refusals.
func (w *watch) refuses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen := &watching{ResponseWriter: rw}
		next.ServeHTTP(seen, r)
		if seen.refusal {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = time.Now()
		}
	})
}

// sells sees the calls that ask a cloud for machines.
func (w *watch) sells(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/instances") ||
			strings.HasSuffix(r.URL.Path, "/bulkInsert") {
			w.asked()
		}
		next.ServeHTTP(rw, r)
	})
}

func (w *watch) asked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused.IsZero() {
		return
	}
	select {
	case w.next <- time.Since(w.refused):
	default: // nobody measures
	}
	w.refused = time.Time{}
}

// watching looks for a refusal in an answer.
type watching struct {
	http.ResponseWriter
	refusal bool
}

// Write implements io.Writer.
func (w *watching) Write(p []byte) (int, error) {
	for _, code := range []string{"AllocationFailed", "SkuNotAvailable"} {
		w.refusal = w.refusal || bytes.Contains(p, []byte(code))
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a handler reach what the writer can do beside.
func (w *watching) Unwrap() http.ResponseWriter { return w.ResponseWriter }
