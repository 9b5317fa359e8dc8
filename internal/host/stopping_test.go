package host_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// An invalid job file is dropped, and its error message may be larger than the limit of the bus. Other files must
// still be read.
func TestInvalidFileDoesNotBlockOthers(t *testing.T) {
	dags, state := t.TempDir(), t.TempDir()
	_, stop := serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	bad := "apiVersion: v1\nkind: " + strings.Repeat("x", 300_000) + "\n"
	if err := os.WriteFile(filepath.Join(dags, "bad.yaml"), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	stop()
	// after a restart, when the file is gone
	h, _ := serve(t, host.Options{State: state, DAGs: t.TempDir(), TimeScale: 0.01})
	submitted, err := h.Broker().Users.Submit(t.Context(),
		broker.Submission{Spec: job(t, "tasks: {a: {run: 'true', time: 1m}}")})
	if err != nil {
		t.Fatal(err)
	}
	for range 15_000 { // longer than this is a hang
		d, err := h.Broker().Views.JobDetail(context.Background(), submitted.ID)
		if err != nil {
			t.Fatal(err)
		}
		if d.State == apitypes.JobSucceeded {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	d, _ := h.Broker().Views.JobDetail(context.Background(), submitted.ID)
	t.Errorf("another job does not end: %s %s", d.State, d.Reason)
}

// unlisted is a cloud whose next lists of all machines fail, as many as refuse states.
type unlisted struct {
	cloud.Cloud
	refuse atomic.Int64
}

func (u *unlisted) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster == "" && u.refuse.Add(-1) >= 0 {
		return nil, cloud.Errorf("lambda", cloud.Transient, "Maintenance", "a region is away")
	}
	return u.Cloud.Machines(ctx, cluster)
}

// The list of all machines fails while the broker stops. The broker must end the recorded machines without the list,
// and then request the list again.
func TestStopEndsMachinesWithoutList(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the end of a pause of the cloud")
	}
	for _, c := range []struct {
		refused int64
		told    bool // the log says that a machine may remain
	}{{1, false}, {1000, true}} {
		t.Run(strconv.FormatInt(c.refused, 10), func(t *testing.T) {
			t.Parallel() // each retry waits half a minute
			stopUnlisted(t, c.refused, c.told)
		})
	}
}

func stopUnlisted(t *testing.T, refused int64, told bool) {
	t.Helper()
	b := newBought(t)
	u, open := &unlisted{}, b.options.Clouds[0].Kit.Open
	b.options.Clouds[0].Kit.Open = func(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
		o, err := open(ctx, r)
		if err == nil {
			u.Cloud, o.Cloud = o.Cloud, u
		}
		return o, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h, err := host.Open(ctx, b.options)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	_, err = h.Broker().Users.Submit(t.Context(),
		broker.Submission{Spec: job(t, "tasks: {a: {run: sleep 3600, time: 1h, resources: {cpus: 2+}}}")})
	if err != nil {
		t.Fatal(err)
	}
	for len(b.account.LiveMachines()) == 0 && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	u.refuse.Store(refused)
	cancel() // as Ctrl-C does
	if err := <-done; (err != nil) != told || err != nil && !strings.Contains(err.Error(), "may still run") {
		t.Errorf("%d lists are refused: %v", refused, err)
	}
	if left := b.account.LiveMachines(); len(left) > 0 {
		t.Errorf("%d lists are refused: %v go on costing", refused, left)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// Ctrl-C interrupts the request of a launch, and the cloud carries it out a moment later, when no process reads the
// response. The machines must be ended.
func TestStopEndsMachinesOfCancelledLaunch(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the end of a pause of the cloud")
	}
	t.Parallel()
	b := newBought(t)
	asked := make(chan struct{}, 1)
	late := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/launch") {
			body, _ := io.ReadAll(r.Body)
			asked <- struct{}{}
			<-r.Context().Done() // the broker stops and closes the connection
			go func() {
				time.Sleep(500 * time.Millisecond) // the API carries the request out a moment later
				again := r.Clone(context.Background())
				again.Body = io.NopCloser(bytes.NewReader(body))
				b.account.ServeHTTP(httptest.NewRecorder(), again)
				close(late)
			}()
			return
		}
		b.account.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b.options.Clouds[0].Kit.Open = func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
		c := lambdalabs.New(lambdalabs.Config{Deployment: r.Deployment, Endpoint: front.URL, LaunchEvery: -1, Agents: r.Agents,
			Graves: r.Graves, Regions: r.Settings.Regions, Log: r.Log,
			Key: func(context.Context) (string, error) { return lambdacloud.DefaultKey, nil }})
		return &cloudkit.Opened{Cloud: c, Checker: c, Regions: r.Settings.Regions}, nil
	}
	b.options.Addr = freeAddress(t)
	b.options.PublicURL = "http://" + b.options.Addr
	h, stop := serve(t, b.options)
	_, err := h.Broker().Users.Submit(t.Context(),
		broker.Submission{Spec: job(t, "tasks: {a: {run: x, time: 1h, resources: {cpus: 2+}}}")})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	stop() // as Ctrl-C does; it reports no error
	<-late
	if left := b.account.LiveMachines(); len(left) > 0 {
		t.Errorf("%v still run after a clean end", left)
	} else {
		return
	}
	if _, err := os.Stat(filepath.Join(b.options.State, "bought.json")); err != nil {
		t.Errorf("and nothing notes that machines may be left: %v", err)
	}
}
