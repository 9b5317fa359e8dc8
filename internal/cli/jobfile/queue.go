package jobfile

import (
	"context"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// NoteNewQueue returns a note if the job will create its queue, or "". The broker refuses a name that is probably a
// typing error.
func NoteNewQueue(ctx context.Context, name string, queues func(context.Context) (*apitypes.QueueList, error)) string {
	if name == "" || name == record.DefaultQueueName {
		return ""
	}
	list, err := queues(ctx)
	if err != nil || slices.ContainsFunc(list.Queues, func(q apitypes.Queue) bool { return q.Name == name }) {
		return "" // the submission reports the error
	}
	return "queue " + name + " is new and gets the default limits; `tradewind queue set " + name + "` changes them"
}
