package notices

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Times until the power of a machine is cut (Compute Engine API v1, Scheduling.skipGuestOsShutdown: 30 seconds for Spot
// VMs).
const (
	gcpLead = 30 * time.Second // after preempted has become true, and the machine has begun to shut down
	// gcpShutdownLead is the time after SIGTERM until the power is cut. logind may delay SIGTERM by 5 seconds (see
	// boot.sh).
	gcpShutdownLead = 25 * time.Second
)

// gcpMaintenanceLead is the time between the change of the maintenance event and the machine's end. It is 60 seconds;
// for machines with GPUs it may be an hour, which is not announced (Compute Engine documentation, "Query metadata
// server for maintenance event notices").
const gcpMaintenanceLead = time.Minute

const gcpInstance = "/computeMetadata/v1/instance/"

// gcp waits for notices of Google's metadata server, which holds a request until the value changes.
type gcp struct {
	service
	poller
}

// Watch implements Watcher. A preemption is an ACPI shutdown, which begins in the moment in which preempted becomes
// true: systemd's SIGTERM may come first. It is also the only notice of other shutdowns.
func (w *gcp) Watch(ctx context.Context, tell func(Notice)) {
	var mu sync.Mutex
	told := func(n Notice) {
		mu.Lock()
		defer mu.Unlock()
		tell(n)
	}
	preempted := &gcpValue{gcp: w, key: "preempted", none: []string{"FALSE"}, notice: "TRUE", lead: gcpLead}
	maintained := &gcpValue{
		gcp: w, key: "maintenance-event", none: []string{"NONE", "MIGRATE_ON_HOST_MAINTENANCE"},
		notice: "TERMINATE_ON_HOST_MAINTENANCE", lead: gcpMaintenanceLead,
	}
	var all sync.WaitGroup
	all.Go(func() { (&sigterm{grace: gcpShutdownLead, clock: w.clock}).Watch(ctx, told) })
	all.Go(func() { w.run(ctx, told, preempted.poll) })
	all.Go(func() { w.run(ctx, told, maintained.poll) })
	all.Wait()
}

// gcpValue is a value of the metadata server.
type gcpValue struct {
	*gcp
	key    string
	none   []string // values that announce nothing
	notice string   // the value that announces an interruption
	lead   time.Duration
	etag   string // of the last value
}

// poll returns a notice if the value announces one. It waits until the value differs from the last one.
func (v *gcpValue) poll(ctx context.Context) ([]Notice, error) {
	path := gcpInstance + v.key
	if v.etag != "" { // otherwise get the current value without waiting: it may already be a notice
		path += "?" + url.Values{"wait_for_change": {"true"}, "timeout_sec": {"60"}, "last_etag": {v.etag}}.Encode()
	}
	body, header, err := v.ask(ctx, http.MethodGet, path, http.Header{"Metadata-Flavor": {"Google"}})
	if err != nil {
		v.etag = ""
		return nil, err
	}
	if header.Get("Metadata-Flavor") != "Google" {
		return nil, fmt.Errorf("%s: the answer is not from Google's metadata server", v.key)
	}
	v.etag = header.Get("Etag")
	switch value := strings.TrimSpace(body); {
	case value == v.notice:
		return []Notice{{Kind: Interruption, ID: v.key, At: v.clock.Now().Add(v.lead)}}, nil
	case slices.Contains(v.none, value):
		return nil, nil
	default:
		return nil, fmt.Errorf("%s: %.100q is neither %s nor one of %v", v.key, value, v.notice, v.none)
	}
}
