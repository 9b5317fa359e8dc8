// Package bus is the port through which events travel from the outbox to the
// functions: named queues with at-least-once delivery in any order, a
// visibility time-out, retries with back-off and a dead-letter queue for each
// with redrive.
//
// It is shaped after EventBridge with an SQS queue for each function; the local
// driver persists its queues and keeps the same rules. bustest is the
// conformance suite that every driver passes.
package bus

import (
	"context"
	"errors"
	"time"
)

// Errors that every driver returns, wrapped with detail.
var (
	// ErrTooLarge: a message is over the driver's limit. Do not retry.
	ErrTooLarge = errors.New("bus: message too large")
	// ErrInvalid: a message without ID or type, a queue or route that cannot be. Do not retry.
	ErrInvalid = errors.New("bus: invalid")
	// ErrUnknownQueue: the driver has no such queue.
	ErrUnknownQueue = errors.New("bus: unknown queue")
	// ErrStaleReceipt: the visibility time-out passed and the message may be delivered to another.
	ErrStaleReceipt = errors.New("bus: stale receipt")
	// ErrClosed: the bus was closed.
	ErrClosed = errors.New("bus: closed")
)

// Limits that every driver enforces.
const (
	// MaxMessageBytes is the largest body (SQS and EventBridge: 256 KB less the envelope's attributes).
	MaxMessageBytes = 240 << 10
	// MaxAttributeBytes is the longest ID, type and group.
	MaxAttributeBytes = 1 << 10
	// MaxReasonBytes is how much of a reason a dead letter keeps.
	MaxReasonBytes = 1 << 10
)

// Message is an event to publish. Type routes it; Group is the record it concerns: a consumer
// may use it to handle related messages together, but no driver orders by it.
type Message struct {
	ID    string
	Type  string // tradewind.task.ready.v1
	Group string // job ID; may be empty
	// Body is a CloudEvents JSON envelope. Publish copies it; a consumer reads it and does not change it.
	Body []byte
	// NotBefore delays the first delivery; zero is at once.
	NotBefore time.Time
}

// Delivery is a message handed to a consumer, hidden from others until its visibility time-out.
type Delivery struct {
	Message
	Receipt string // identifies this delivery, not the message
	Attempt int    // 1 on the first delivery
}

// DeadLetter is a message that was given up.
type DeadLetter struct {
	Message
	Queue    string // "" of a message that no queue is routed to
	Reason   string // the consumer's words, or the driver's when nobody answered
	Attempts int
	At       time.Time
}

// Route says which queues get an event type. A type without an entry goes to the dead letters with a
// reason, under queue ""; a type with an empty list is known to concern nobody and is dropped.
type Route map[string][]string

// QueueConfig are the delivery rules of one queue.
type QueueConfig struct {
	Name        string
	Visibility  time.Duration // how long a delivery stays hidden
	MaxAttempts int           // deliveries before the message is a dead letter
	// BackoffMin and BackoffMax bound the doubling delay before a failed message is delivered again.
	BackoffMin, BackoffMax time.Duration
}

// Bus carries messages. All methods are safe for concurrent use. A method called with a context
// that is done returns its error and changes nothing. A queue that the driver was not configured
// with is ErrUnknownQueue.
type Bus interface {
	// Publish stores messages durably in every queue their type routes to. A message ID published
	// twice may be delivered twice. Either all are stored or an error is returned, after which any may be;
	// after ErrTooLarge and ErrInvalid none is.
	Publish(ctx context.Context, messages ...Message) error
	// Receive returns up to limit visible messages of a queue. It waits up to wait for the first one, and
	// returns none when the time is over. Each is hidden for the queue's visibility time-out; when that
	// passes without an answer it is visible again, or a dead letter if this was its last attempt.
	Receive(ctx context.Context, queue string, limit int, wait time.Duration) ([]Delivery, error)
	// Ack removes messages for good. A stale receipt is not an error when the message is gone already.
	// Otherwise it is ErrStaleReceipt, and the messages of the other receipts are removed all the same.
	// A crash soon after an Ack may bring its messages back, as any at-least-once delivery may.
	Ack(ctx context.Context, queue string, receipts ...string) error
	// Nack makes a message visible again after the queue's back-off, or a dead letter when it had its last
	// attempt. Its receipt is then stale, as it is after Ack and Reject: another Nack, Reject or Extend by it
	// fails with ErrStaleReceipt.
	Nack(ctx context.Context, queue, receipt, reason string) error
	// Reject makes a message a dead letter at once.
	Reject(ctx context.Context, queue, receipt, reason string) error
	// Extend hides a delivery for another visibility time-out from now, for work that takes long.
	Extend(ctx context.Context, queue, receipt string) error
	// DeadLetters lists up to limit messages that were given up in a queue ("" is all), oldest first.
	DeadLetters(ctx context.Context, queue string, limit int) ([]DeadLetter, error)
	// Redrive puts dead letters back in their queue with their attempts forgotten, all of the queue's when no
	// ID is given ("" is all queues). One that had no queue is routed anew, and stays if there still is none. It
	// returns how many letters left the dead.
	Redrive(ctx context.Context, queue string, ids ...string) (int, error)
	// Depth returns how many messages a queue holds, hidden and delayed ones included.
	Depth(ctx context.Context, queue string) (int, error)
	// Close releases the driver's resources and wakes waiting receivers. Calls after it fail with ErrClosed,
	// Close itself does not.
	Close() error
}
