package gcp_test

import "testing"

// A zone that is away does not keep machines of another from being ended, by a process that has not launched them.
func TestAZoneThatIsAwayHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand)); err != nil {
		t.Fatal(err)
	}
	w.gce.Silence("us-central1-b", true)
	err := w.another(nil).Terminate(t.Context(), "a")
	all, lerr := w.gcp.Machines(t.Context(), "a")
	running := 0
	for _, m := range all {
		if m.State == "running" {
			running++
		}
	}
	if err != nil || running > 0 {
		t.Errorf("%v; %d machines of zone a go on costing (%v)", err, running, lerr)
	}
}
