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

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// hopWithin is the maximum time of a job until its launch on the second cloud.
const hopWithin = 2 * time.Minute

// Hop is one job's failover from a refusal to the next launch.
type Hop struct {
	Took  time.Duration            // from the refusal's answer to the next call for a machine
	Spent map[string]time.Duration // by activity, see account.Trace
}

// onTheWay are the functions that handle a refused job, in order. Other functions work at the same time.
var onTheWay = []string{"cloud-azure", "provision", "relay", "optimize", "schedule", "cloud-gcp"}

// Failover runs n jobs, one after the other, that Azure refuses. The deployed functions move each of them to Google
// Cloud: they remove the remains of the first launch, record the failure, and replan.
func Failover(ctx context.Context, o account.Options, n int) (hops []Hop, err error) {
	o.Trace = &account.Trace{}
	w, err := open(ctx, o, n)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	w.Azure.Dry(arm.Shortage{Location: azureRegion})
	s := &Story{World: w}
	s.client = client.NewSigned(w.API, account.Region, credentials.StaticCredentialsProvider{Value: w.User})
	for i := range n {
		h, err := s.hop(ctx, i)
		if err != nil {
			return hops, fmt.Errorf("job %d: %w", i, err)
		}
		hops = append(hops, h)
	}
	return hops, nil
}

func (s *Story) hop(ctx context.Context, i int) (h Hop, err error) {
	ctx, cancel := context.WithTimeout(ctx, hopWithin)
	defer cancel()
	name := fmt.Sprintf("hop-%d", i)
	id, err := s.submit(ctx, name, fmt.Sprintf("apiVersion: tradewind/v1\nname: %s\ntasks: {a: {run: sleep 600, "+
		"time: 1h, resources: {anyOf: [{cloud: azure, instanceType: %s}, "+
		"{cloud: gcp, instanceType: n2-standard-4}]}}}\n", name, refusedType(i)))
	if err != nil {
		return h, err
	}
	var seen failedOver
	select {
	case seen = <-s.World.watch.next:
	case <-ctx.Done():
		d, _ := s.client.Job(context.WithoutCancel(ctx), id)
		return h, fmt.Errorf("%w: no launch after a refusal: %+v", ctx.Err(), d)
	}
	if _, err := s.client.Cancel(ctx, id, "measured"); err != nil {
		return h, err
	}
	err = until(ctx, func() error { // otherwise its machine takes CPU time from the next job
		d, err := s.client.Job(ctx, id)
		if err == nil && !d.State.Finished() {
			err = fmt.Errorf("the job is %s", d.State)
		}
		return err
	})
	// By now all functions that handled the job have ended and are in the trace.
	return Hop{seen.asked.Sub(seen.refused), s.World.Trace.Split(seen.refused, seen.asked, onTheWay)}, err
}

// unavailable returns types in Azure's catalogue, one for each job, because a refusal blocks its type for a while.
func unavailable(n int) (lines []line) {
	for i := range n {
		lines = append(lines, line{
			cloud: "azure", region: azureRegion, kind: refusedType(i), vcpu: 4, gib: 16, usd: 0.05,
		})
	}
	return lines
}

func refusedType(i int) string { return fmt.Sprintf("Standard_R%d", i) }

// failedOver contains the times of a cloud's refusal and of the call of the next cloud.
type failedOver struct{ refused, asked time.Time }

// watch measures the time from a refusal to the next call for a machine.
type watch struct {
	next chan failedOver

	mu      sync.Mutex
	refused time.Time
}

func newWatch() *watch { return &watch{next: make(chan failedOver, 1)} }

// refuses records a cloud's refusals.
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

// sells records calls that ask a cloud for machines.
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
	case w.next <- failedOver{w.refused, time.Now()}:
	default: // nothing is being measured
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

// Unwrap lets handlers use the other methods of the writer.
func (w *watching) Unwrap() http.ResponseWriter { return w.ResponseWriter }
