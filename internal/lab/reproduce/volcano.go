package reproduce

import "context"

// The article has no measurements: it describes scenarios, actions, plugins and states. The tables name the part of
// this project that has each, and a test that shows it. TestPartsNameTestsThatExist checks that these tests exist.

const volcanoNote = "The article has no numbers. Stories are in `testdata/stories` or `testdata/*.txt` of the package."

func volcanoTable(title string, rows ...[3]string) func(context.Context, *source) (Item, error) {
	return func(context.Context, *source) (Item, error) {
		item := Item{Title: title, Columns: []string{"article", "here", "test"}, Note: volcanoNote}
		for _, r := range rows {
			item.Rows = append(item.Rows, Row{"article": r[0], "here": r[1], "test": r[2]})
		}
		return item, nil
	}
}

func scenarios(ctx context.Context, s *source) (Item, error) {
	return volcanoTable("scenarios of the article",
		[3]string{"gang scheduling", "plugin gang; gangs of roles in the broker", "pkg/scheduler/testdata/gang.txt"},
		[3]string{"fair share of jobs", "plugin drf", "pkg/scheduler/testdata/fairness.txt"},
		[3]string{"queues, and queues in queues", "plugin proportion, hierarchical queues",
			"pkg/scheduler/testdata/queues.txt"},
		[3]string{"fair share of namespaces across queues", "weights of namespaces",
			"pkg/scheduler/testdata/fairness.txt"},
		[3]string{"fairness over time", "usage with a half-life", "pkg/scheduler/property_test.go " +
			"TestSharesConvergeToWeights"},
		[3]string{"priority of jobs", "plugin priority", "pkg/scheduler/testdata/preempt.txt"},
		[3]string{"preemption within a queue, reclaim between queues", "actions preempt and reclaim",
			"pkg/scheduler/testdata/preempt.txt"},
		[3]string{"reservation and backfill", "action backfill, reservations of nodes",
			"pkg/scheduler/order_test.go TestNodeIsReservedForOneJob"},
	)(ctx, s)
}

func actions(ctx context.Context, s *source) (Item, error) {
	return volcanoTable("actions and plugins of the article",
		[3]string{"enqueue, allocate, preempt, backfill", "actions of a session, in the order of the policy",
			"pkg/scheduler/testdata/policy.txt"},
		[3]string{"reclaim, reserve", "the same", "pkg/scheduler/testdata/waiting.txt"},
		[3]string{"an action of one's own, such as Firmament's", "an option of a session",
			"pkg/scheduler/action_test.go ExampleWithAction"},
		[3]string{"plugins register functions such as JobOrderFn", "functions of a policy",
			"pkg/scheduler/example_test.go Example"},
		[3]string{"a cache with snapshots, one session and one thread", "a snapshot for each session; several " +
			"sessions commit by conditional write",
			"pkg/scheduler/fault_test.go TestOpenValidatesSnapshot"},
	)(ctx, s)
}

func states(ctx context.Context, s *source) (Item, error) {
	return volcanoTable("states of the article",
		[3]string{"Pending", "queued", "pkg/scheduler/testdata/waiting.txt"},
		[3]string{"Allocated: rolled back if the job is not ready", "a statement that is committed or discarded",
			"pkg/scheduler/property_test.go TestDiscardRestoresSession"},
		[3]string{"Pipelined: waits for resources that are being released", "pipelined",
			"pkg/scheduler/testdata/preempt.txt"},
		[3]string{"Binding and Bound", "admitted and launching", "internal/broker/session/story_test.go TestStories"},
		[3]string{"Releasing", "releasing", "internal/broker/attempt/story_test.go TestStories"},
		[3]string{"Running, Failed, Succeeded, Unknown", "running, failed, succeeded, lost",
			"internal/broker/attempt/story_test.go TestStories"},
	)(ctx, s)
}
