package session

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestReplicaDoesNotWaitBehindTaskThatWaitsForLimit: the service's other replicas never end, so both would wait for
// ever.
func TestReplicaDoesNotWaitBehindTaskThatWaitsForLimit(t *testing.T) {
	cfg := config.Default()
	cfg.Limit = config.Limit{Machines: 4}
	for name, c := range map[string]struct {
		service *dag.Service
		waits   bool
	}{"a task": {nil, true}, "a replica": {&dag.Service{}, false}} {
		s := &Session{Input: Input{Config: cfg}, u: recordcache.NewDraft(nil, time.Now(), 0)}
		s.gate.loaded, s.gate.overdue = true, true
		a := &admission{nodes: 1, side: &side{
			spec: &dag.Job{Tasks: []dag.Task{{Name: "t", Service: c.service}}},
			plan: &record.Plan{Offers: []record.Planned{{Offer: apitypes.Offer{USDPerHour: 1}}}, Choice: []int32{0}},
		}}
		if over, err := s.overLimit([]*admission{a}); err != nil || (over != "") != c.waits {
			t.Errorf("%s: %q, %v", name, over, err)
		}
	}
}

// TestGateIsLoadedBeforeQueues: a session loads the gate, the record that each admission under the deployment's limit
// writes, before the queues that it sums up. So of two sessions that admit at the same time, one has to be repeated. If
// the gate were newer than the queues, the second session would miss the first one's admission.
func TestGateIsLoadedBeforeQueues(t *testing.T) {
	cfg := config.Default()
	cfg.Limit = config.Limit{Machines: 4}
	d := recordcache.NewDraft(recordcache.New(recordcache.NewKept(0)), time.Now(), 0)
	_, err := New(Input{Config: cfg}, d, "default")
	if !errors.Is(err, recordcache.ErrMissing) || !slices.Contains(d.Missing.Keys, record.GateKey()) {
		t.Errorf("the first records that a session loads are %v, %v", d.Missing, err)
	}
}
