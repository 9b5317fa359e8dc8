package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Settings that were read before a queue was suspended do not open it. They do open a queue that is only closed.
func TestSetQueueKeepsSuspension(t *testing.T) {
	q := apitypes.Queue{Name: "lab", Closed: true, Suspended: apitypes.Suspension{By: "ann", Since: time.Unix(1, 0)}}
	record.SetQueue(&q, record.QueueSettings{MaxVCPU: 8})
	if !q.Closed || q.Suspended.By != "ann" || q.MaxVCPU != 8 {
		t.Errorf("%+v", q)
	}
	q = apitypes.Queue{Name: "lab", Closed: true}
	if record.SetQueue(&q, record.QueueSettings{}); q.Closed {
		t.Error("a closed queue stays closed")
	}
}
