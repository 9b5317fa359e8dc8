package cost

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
)

// Assumed durations of calls in seconds: the usual values of the services within a region. Lambda charges for
// waiting.
const (
	waitRead         = 0.004
	waitWrite        = 0.006
	waitTransaction  = 0.012
	waitPutEvents    = 0.015
	waitQueue        = 0.008
	waitObject       = 0.025
	waitLaunch       = 2.5 // RunInstances, including the lookups before it
	waitTerminate    = 0.8
	waitDescribe     = 0.2
	authorizerMemory = 0.125 // GiB
	ownTime          = 0.002 // of the handler itself, for each invocation: bench/lambda
	coldStart        = 0.150 // start of a sandbox, which is charged; the part of our code is below 20 ms
)

// Times of a job in addition to those of its tasks.
const (
	bootTime    = 60 * time.Second       // from the launch to the agent's first call
	streamEvery = 250 * time.Millisecond // Lambda polls a stream four times a second, free of charge
	polled      = 20 * time.Millisecond  // from a queue to a waiting function
	retryAfter  = 2 * time.Second
	exitTime    = 50 * time.Millisecond // from an agent's last report until its worker sees its end
	firstPiece  = 15 * time.Second      // time until the first piece of a task's log, if any; the rest comes at its end
)

// pieceBytes is the size of a piece of log: a task prints that many bytes before each piece is sent.
const pieceBytes = 1 << 10

// logBytes is the size of the log of an invocation that handled events: a line of metrics. Lambda's own lines are
// switched off.
const logBytes = 330

// size is a function's configuration in infra/: memory in GB, and messages in a batch.
type size struct {
	memory float64
	batch  int
}

// sizeOf returns the size that infra/stack deploys.
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

// Functions without a queue.
const (
	fnAPI   = "api"
	fnRelay = "relay"
)

// Assumptions describes the assumptions behind the figures.
func Assumptions() []string {
	return []string{
		"Calls take: DynamoDB read 4 ms, write 6 ms, transaction 12 ms; PutEvents 15 ms; SQS 8 ms; S3 25 ms; " +
			"RunInstances 2.5 s; TerminateInstances 0.8 s.",
		"A function's own work takes 2 ms; each function has one cold start, 150 ms.",
		"Events published together reach a queue together, and Lambda takes them as one batch, up to the " +
			"batch size.",
		"Machines boot in a minute, run as long as planned and are not interrupted; agents call every 5 minutes, " +
			"report their task after 15 seconds with a kilobyte of log, and send another kilobyte with the result.",
		"Workers that run several tasks call as often as the broker asks: every 3 seconds while another task would " +
			"fit, every minute while none does, and a second after the end of a task. Their tasks take up to a tenth " +
			"more or less than planned; those of at most a minute report only their result.",
		"No free tier is counted except SQS's million requests a month. Polling while work is open uses " +
			"10,800 of them an hour, which lasts 92 hours.",
		"Storage and data transfer of the tasks are not included.",
	}
}
