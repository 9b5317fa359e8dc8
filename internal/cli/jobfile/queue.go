package jobfile

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// DoubtQueue says that a queue is new where one that is there has nearly its name, and is empty otherwise: queues are
// made by the first job that names them, and so by one that mistypes it.
func DoubtQueue(ctx context.Context, name string, queues func(context.Context) (*apitypes.QueueList, error)) string {
	if name == "" || name == record.DefaultQueueName {
		return ""
	}
	list, err := queues(ctx)
	if err != nil {
		return "" // the submission says what is wrong
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
	return "queue " + name + " is new, and made by this job; if you meant " + near + ", cancel it and submit it again"
}
