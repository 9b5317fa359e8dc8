package broker_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// TestTaskWaitCountsFromReadyEvent: the time until its event is handled, as when functions are busy, counts as waiting.
func TestTaskWaitCountsFromReadyEvent(t *testing.T) {
	for _, late := range []time.Duration{10 * time.Second, -time.Minute} {
		p := &agentBench{bench: newBench(t)}
		p.submit("{t: {run: x, time: 2h}}", "1")
		ready := p.until(events.TypeTaskReady)
		p.now = p.now.Add(late)
		p.deliverAll(events.TypeTaskAdmitted)
		want := ready.Time
		if p.now.Before(want) {
			want = p.now // the emitter's clock is ahead
		}
		if got := stored[record.Task](p, "task#000000").ReadyAt; !got.Equal(want) {
			t.Errorf("handled %v later it waits since %v, want %v", late, got, want)
		}
	}
}
