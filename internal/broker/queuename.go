package broker

import (
	"context"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// checkQueue refuses a job whose queue does not exist, if the name is probably a typing error or if queues were set
// up. A queue that the job would create would be outside of their quotas.
func (b *Users) checkQueue(ctx context.Context, spec *dag.Job) error {
	if spec.Queue == "" || spec.Queue == record.DefaultQueueName {
		return nil
	}
	u := b.txns.NewUnit(ctx, events.FnSubmit)
	_, found, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(spec.Queue))
	if err != nil || found {
		return err
	}
	queues, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return err
	}
	hint := newQueueHint(spec.Queue, queues)
	if hint == "" {
		return nil
	}
	e := spec.ErrorAt(-1, dag.FilesOfTask, "", "there is no queue "+fault.Quote(spec.Queue), hint)
	e.Field = "queue"
	return e
}

// newQueueHint returns a text that says how to correct the name of a queue that does not exist. It returns "" if a
// job may create the queue.
func newQueueHint(name string, queues []apitypes.Queue) string {
	var names []string
	configured := false
	for _, q := range queues {
		if !q.Inner {
			names = append(names, q.Name)
		}
		configured = configured || q.Configured
	}
	if !slices.Contains(names, record.DefaultQueueName) { // the default queue exists before any job is in it
		names = append(names, record.DefaultQueueName)
	}
	create := "`tradewind queue create " + name + "` creates it"
	switch near := fault.Nearest(name, names); {
	case near != "":
		return "did you mean " + fault.Quote(near) + "? " + create
	case configured:
		return create + "; the queues are " + strings.Join(names[:min(len(names), maxNamedQueues)], ", ")
	}
	return ""
}

// maxNamedQueues is the maximum number of queues that an error names.
const maxNamedQueues = 10
