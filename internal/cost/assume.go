package cost

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
)

// How long calls are assumed to take, seconds: what the services are known for within a region. Lambda charges for
// waiting.
const (
	waitRead        = 0.004
	waitWrite       = 0.006
	waitTransaction = 0.012
	waitPutEvents   = 0.015
	waitQueue       = 0.008
	waitObject      = 0.025
	waitLaunch      = 2.5 // RunInstances, with the lookups before it
	waitTerminate   = 0.8
	waitDescribe    = 0.2
	ownTime         = 0.002 // of the handler itself, each invocation: bench/lambda
	coldStart       = 0.150 // the start of a sandbox, which is charged: ours is below 20 ms of it
)

// Times of a job beside its tasks' own.
const (
	bootTime    = 60 * time.Second       // from the launch to the agent's first call
	streamEvery = 250 * time.Millisecond // Lambda looks at a stream four times a second, for nothing
	polled      = 20 * time.Millisecond  // from a queue to a function that waits for messages
	retryAfter  = 2 * time.Second
	firstPiece  = 15 * time.Second // of a task's log, when it has one by then; the rest comes with its end
)

// pieceBytes is how much a task prints until its first piece of log is sent, and after it.
const pieceBytes = 1 << 10

// logBytes is what an invocation that handled events writes to its log: a line of metrics. Lambda's own lines are
// switched off.
const logBytes = 330

// size is what infra/ gives a function: memory, GB, and the messages of a batch.
type size struct {
	memory float64
	batch  int
}

// sizeOf is as infra/stack deploys it.
func sizeOf(fn string) size {
	switch fn {
	case events.FnSubmit, events.FnOptimize, events.FnTick, events.FnRefresh:
		return size{0.5, 1}
	case events.FnReconcile:
		return size{0.25, 1}
	case events.FnHook:
		return size{0.125, 10}
	default:
		return size{0.25, 10}
	}
}

// Functions that no queue feeds.
const (
	fnAPI   = "api"
	fnRelay = "relay"
)

// Assumptions says in words what the figures rest on.
func Assumptions() []string {
	return []string{
		"Calls take: DynamoDB read 4 ms, write 6 ms, transaction 12 ms; PutEvents 15 ms; SQS 8 ms; S3 25 ms; " +
			"RunInstances 2.5 s; TerminateInstances 0.8 s.",
		"A function's own work takes 2 ms; each function is started cold once, 150 ms.",
		"Events that are published together reach a queue together, and Lambda takes them as one batch, up to the " +
			"batch size.",
		"Machines boot in a minute, run for as long as planned and are not taken; agents call every 5 minutes, and " +
			"say that their task runs after 15 seconds, with a kilobyte of log, and send another with their result.",
		"No free allowance is counted but SQS's million requests a month, of which polling with work open takes " +
			"10,800 an hour: 92 hours.",
		"What tasks store and move is the jobs' own, and not in it.",
	}
}
