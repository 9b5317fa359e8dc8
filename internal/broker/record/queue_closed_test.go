package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// A client reads the settings of an open queue, another suspends the queue, and the first writes its settings. The
// queue must stay closed. A queue that is closed but not suspended is opened by such settings.
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
