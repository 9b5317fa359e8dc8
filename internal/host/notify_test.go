package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// A broker ends as soon as its job has ended, like the broker of `tradewind run`. Before that, it must notify the
// job's recipients and its operator, each once. The next broker on the folder must not notify them again.
func TestNotifiesBeforeHostEnds(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	say := func(who string) string { return `sleep 0.3; echo ` + who + ` "$TRADEWIND_OUTCOME" >>'` + log + `'` }
	opt := host.Options{State: filepath.Join(dir, "state"), Notify: dag.Notify{Command: say("operator")}}
	h, stop := serve(t, opt)
	spec, err := read.Job("a.yaml", strings.NewReader("apiVersion: tradewind/v1\ntasks: {a: {run: 'true', time: 1m}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Notify.Command = say("job")
	job, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, h.Broker(), job.ID); d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s", d.State, d.Reason)
	}
	stop()
	_, stop = serve(t, opt)
	stop()
	body, err := os.ReadFile(log) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(body)); strings.Join(got, " ") != "job succeeded operator succeeded" {
		t.Errorf("notified: %q", got)
	}
}
