package record

import (
	"testing"
	"time"
)

// After an update, attempts use the new spec, except those admitted under a plan from before the update. Stopping the
// update restores the spec from before it.
func TestUpdateAndStop(t *testing.T) {
	j := Job{Spec: Blob{Version: 1}, Plan: Blob{Version: 4}}
	if got := j.SpecFor(1).Version; got != 1 || j.NextSpec() != 2 || j.Update.Open() {
		t.Errorf("before: %d, next %d", got, j.NextSpec())
	}
	j.Updated(Blob{Version: j.NextSpec()}, time.Unix(1, 0))
	if now, before := j.SpecFor(5).Version, j.SpecFor(4).Version; now != 2 || before != 1 || !j.Update.Open() {
		t.Errorf("under its plan %d, before %d", now, before)
	}
	j.Updated(Blob{Version: j.NextSpec()}, time.Unix(2, 0))
	if j.Spec.Version != 3 || j.SpecAt(1).Version != 1 || j.SpecAt(2).Version != 2 {
		t.Errorf("during a second update: %+v", j)
	}
	j.StopUpdate("it fails")
	if j.Spec.Version != 2 || j.SpecAt(3).Version != 3 || j.SpecFor(1).Version != 2 || j.NextSpec() != 4 || j.Update.Failed == "" {
		t.Errorf("stopped: %+v", j)
	}
	for range 20 {
		j.Updated(Blob{Version: j.NextSpec()}, time.Unix(3, 0))
	}
	if len(j.Was) != maxWas || j.SpecAt(j.Update.Before).Version != j.Update.Before {
		t.Errorf("after many: %+v", j)
	}
}
