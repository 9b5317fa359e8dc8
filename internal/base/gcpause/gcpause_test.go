package gcpause

import (
	"runtime/debug"
	"testing"
)

func TestCollectorPausesUntilEnd(t *testing.T) {
	<-End(0)
	if got := debug.SetGCPercent(percent); got != percent {
		t.Errorf("after End the percentage is %d, want %d", got, percent)
	}
	if percent < 0 {
		t.Errorf("the percentage to restore is %d: it was read after the pause", percent)
	}
}
