package notices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Times until the power of a machine is cut (Compute Engine API v1, Scheduling.skipGuestOsShutdown: 30 seconds for Spot
// VMs).
const (
	gcpLead = 30 * time.Second // after preempted has become true, and the machine has begun to shut down
	// gcpShutdownLead is the same after SIGTERM, which logind may delay by 5 seconds (see boot.sh).
	gcpShutdownLead = 25 * time.Second
)

const gcpPreempted = "/computeMetadata/v1/instance/preempted"

// gcp polls Google's metadata server, which holds the request until the value changes.
type gcp struct {
	service
	poller
	etag string // of the last value
}

// Watch implements Watcher. A preemption is an ACPI shutdown, which begins in the moment in which preempted becomes true:
// systemd's SIGTERM may come first. It is also the only notice of other shutdowns.
func (w *gcp) Watch(ctx context.Context, tell func(Notice)) {
	var mu sync.Mutex
	told := func(n Notice) {
		mu.Lock()
		defer mu.Unlock()
		tell(n)
	}
	var others sync.WaitGroup
	others.Go(func() { (&sigterm{grace: gcpShutdownLead, clock: w.clock}).Watch(ctx, told) })
	w.run(ctx, told, w.poll)
	others.Wait()
}

func (w *gcp) poll(ctx context.Context) ([]Notice, error) {
	q := url.Values{"wait_for_change": {"true"}, "timeout_sec": {"60"}}
	if w.etag == "" { // get the current value without waiting: it may already be TRUE
		q = url.Values{}
	} else {
		q.Set("last_etag", w.etag)
	}
	path := gcpPreempted
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	body, header, err := w.ask(ctx, http.MethodGet, path, http.Header{"Metadata-Flavor": {"Google"}})
	if err != nil {
		w.etag = ""
		return nil, err
	}
	if header.Get("Metadata-Flavor") != "Google" {
		return nil, errors.New("preempted: the answer is not from Google's metadata server")
	}
	w.etag = header.Get("Etag")
	switch strings.TrimSpace(body) {
	case "TRUE":
		return []Notice{{Kind: Interruption, ID: "preempted", At: w.clock.Now().Add(gcpLead)}}, nil
	case "FALSE":
		return nil, nil
	}
	return nil, fmt.Errorf("preempted: %.100q is neither TRUE nor FALSE", body)
}
