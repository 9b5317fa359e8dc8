package gcp_test

import "testing"

// A process has not launched a cluster, and one zone is unreachable. The process must be able to terminate the
// cluster in another zone.
func TestTerminateIgnoresOutageOfOtherZone(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand)); err != nil {
		t.Fatal(err)
	}
	w.gce.SetUnreachable("us-central1-b", true)
	err := w.another(nil).Terminate(t.Context(), "a")
	all, lerr := w.gcp.Machines(t.Context(), "a")
	running := 0
	for _, m := range all {
		if m.State == "running" {
			running++
		}
	}
	if err != nil || running > 0 {
		t.Errorf("%v; %d machines of zone a still run (%v)", err, running, lerr)
	}
}
