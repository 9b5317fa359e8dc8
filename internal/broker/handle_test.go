package broker

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// Notices of interruptions leave seconds. In a batch they must be handled before all other events and apart from them,
// and each error must still be that of its event.
func TestNoticesAreHandledFirst(t *testing.T) {
	notice := func(kind cloud.NoticeKind) events.Data {
		return events.SpotInterrupted{Cluster: "j.0.1", Job: "j", Kind: string(kind)}
	}
	var batch []events.Event
	for i, data := range []events.Data{
		events.DAGSubmitted{Job: "j"}, notice(cloud.Interruption), events.GangBroken{Job: "j"}, notice(cloud.Taken), notice(cloud.Interruption),
	} {
		batch = append(batch, events.New(string(rune('a'+i)), "test", time.Time{}, data))
	}
	order, urgent := functions()[events.FnInterrupt].order(batch)
	if urgent != 2 || len(order) != 5 || order[0] != 1 || order[1] != 4 || order[2] != 0 || order[3] != 2 || order[4] != 3 {
		t.Errorf("%d urgent ones of %v", urgent, order)
	}
	b := New(config.Default(), Ports{Store: mem.New(), Now: time.Now})
	for i, err := range b.Functions.Handle(t.Context(), events.FnInterrupt, batch) {
		if unknown := i == 0; (err != nil) != unknown { // interrupt does not react to submitted jobs
			t.Errorf("event %d: %v", i, err)
		}
	}
}
