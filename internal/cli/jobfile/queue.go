package jobfile

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// WarnNewQueue returns a warning if the queue does not exist yet and an existing queue has a similar name; otherwise it
// returns "". The first job that names a queue creates it, so a typing error would create one, too.
func WarnNewQueue(ctx context.Context, name string, queues func(context.Context) (*apitypes.QueueList, error)) string {
	if name == "" || name == record.DefaultQueueName {
		return ""
	}
	list, err := queues(ctx)
	if err != nil {
		return "" // the submission reports the error
	}
	known := make([]string, len(list.Queues))
	for i := range list.Queues {
		if known[i] = list.Queues[i].Name; known[i] == name {
			return ""
		}
	}
	near := fault.Nearest(name, known)
	if near == "" {
		return ""
	}
	return "this job creates queue " + name + "; if you meant " + near + ", cancel the job and submit it again"
}
