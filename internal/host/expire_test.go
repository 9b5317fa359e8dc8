package host_test

import (
	"errors"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// sizeOf returns the number of files below a folder, and their bytes.
func sizeOf(t *testing.T, dir string) (n int, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n, bytes = n+1, bytes+info.Size()
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return n, bytes
}

// One job expires, its user removes another, and a third is kept. Only the third may have logs and outputs left.
// Usage and learned run times must not change. Time is compressed: an hour passes in 3.6 seconds.
func TestFinishedJobsGo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for several expiries")
	}
	state := t.TempDir()
	h, _ := serve(t, host.Options{State: state, TimeScale: 0.001, Keep: "1h"})
	run := func(name, keep string) string {
		spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: "+name+"\n"+keep+`
tasks:
  a:
    run: head -c 300000 /dev/zero | tee $TRADEWIND_OUTPUT/data | base64
    resources: {cpus: 2+}
`))
		if err != nil {
			t.Fatal(err)
		}
		j, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		if d := await(t, h.Broker(), j.ID); d.State != apitypes.JobSucceeded {
			t.Fatalf("%s: %s", d.State, d.Reason)
		}
		return j.ID
	}
	kept, removed := run("kept", "keep: forever"), run("removed", "keep: 90d")
	expires := run("expires", "")
	ids := []string{expires, removed, kept}
	learned, err := h.Broker().Views.Learned(t.Context(), "expires")
	if err != nil || len(learned.Tasks) == 0 {
		t.Fatalf("%+v, %v", learned, err)
	}
	held := func() (hours, vcpus float64) {
		u, err := h.Broker().Views.Usage(t.Context(), 744*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range u.Queues {
			for i := range q.Running {
				hours, vcpus = hours+q.Running[i]*u.StepHours, vcpus+q.VCPUs[i]*u.StepHours
			}
		}
		return hours, vcpus
	}
	hours, vcpus := held()
	for _, id := range ids {
		outputs, a := sizeOf(t, filepath.Join(state, "objects", id))
		logs, b := sizeOf(t, filepath.Join(state, "logs", id))
		t.Logf("before: %s has %d outputs (%d bytes) and %d files of logs (%d bytes)", id, outputs, a, logs, b)
		if outputs == 0 || logs == 0 {
			t.Error("the test shows nothing")
		}
	}
	ask[apitypes.JobView](t, h, http.MethodPost, "/v1/jobs/"+removed+"/remove", "")
	there := func(id string) bool {
		_, err := h.Broker().Views.JobView(t.Context(), id)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Fatal(err)
		}
		outputs, _ := sizeOf(t, filepath.Join(state, "objects", id))
		logs, _ := sizeOf(t, filepath.Join(state, "logs", id))
		return err == nil || outputs+logs > 0
	}
	for deadline := time.Now().Add(2 * time.Minute); there(expires) || there(removed); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %s %v, %s %v", expires, there(expires), removed, there(removed))
		}
	}
	if d, err := h.Broker().Views.JobView(t.Context(), kept); err != nil || !d.Expires.IsZero() {
		t.Errorf("the job to keep: %+v, %v", d, err)
	}
	if outputs, _ := sizeOf(t, filepath.Join(state, "objects", kept)); outputs == 0 {
		t.Error("the outputs of the job to keep are gone")
	}
	if h2, v2 := held(); math.Abs(h2-hours) > 1e-9 || math.Abs(v2-vcpus) > 1e-9 {
		t.Errorf("usage was %v and %v, and is %v and %v", hours, vcpus, h2, v2)
	}
	again, err := h.Broker().Views.Learned(t.Context(), "expires")
	if err != nil || len(again.Tasks) != len(learned.Tasks) || again.At != learned.At {
		t.Errorf("learned %+v, then %+v, %v", learned, again, err)
	}
	if _, err := os.Stat(filepath.Join(state, "objects", kept)); err != nil {
		t.Error(err)
	}
}
