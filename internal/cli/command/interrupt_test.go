package command

import (
	"io"
	"testing"
	"time"
)

func TestDuplicateInterruptCountsOnce(t *testing.T) {
	now, left := time.Unix(0, 0), false
	i := NewInterrupts(t.Context(), &Env{Now: func() time.Time { return now }, Err: io.Discard, Exit: func(int) { left = true }})
	i.interrupt()
	now = now.Add(duplicateWindow / 2)
	i.interrupt()
	if left {
		t.Error("exited although another process only forwarded the terminal's signal")
	}
	<-i.first
	now = now.Add(duplicateWindow)
	i.interrupt()
	if !left {
		t.Error("not exited")
	}
}
