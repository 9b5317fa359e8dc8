// Package bus is the port through which events travel from the outbox to the
// functions. It has named queues with at-least-once delivery in any order, a
// visibility time-out, retries with back-off, and a dead-letter queue with
// redrive for each queue.
//
// It is shaped after EventBridge with an SQS queue for each function. The local
// driver persists its queues and follows the same rules. bustest is the
// conformance suite that every driver passes.
package bus

import (
	"context"
	"errors"
	"time"
)

// Errors that every driver returns, wrapped with detail.
var (
	// ErrTooLarge means that a message exceeds the driver's limit. Do not retry.
	ErrTooLarge = errors.New("bus: message too large")
	// ErrInvalid is returned for a message without ID or type, or an invalid queue or route. Do not retry.
	ErrInvalid = errors.New("bus: invalid")
	// ErrUnknownQueue means that the driver has no such queue.
	ErrUnknownQueue = errors.New("bus: unknown queue")
	// ErrStaleReceipt means that the visibility time-out has passed, so another consumer may get the message.
	ErrStaleReceipt = errors.New("bus: stale receipt")
	// ErrClosed means that the bus was closed.
	ErrClosed = errors.New("bus: closed")
)

// Limits that every driver enforces.
const (
	// MaxMessageBytes is the largest body (SQS and EventBridge: 256 KB minus the envelope's attributes).
	MaxMessageBytes = 240 << 10
	// MaxAttributeBytes is the longest ID, type and group.
	MaxAttributeBytes = 1 << 10
	// MaxReasonBytes is the maximum length of a dead letter's reason; longer reasons are cut off.
	MaxReasonBytes = 1 << 10
)

// Message is an event to publish. Type routes it. Group is the record that it concerns: a consumer
// may use it to handle related messages together, but no driver orders by it.
type Message struct {
	ID    string
	Type  string // for example tradewind.task.ready.v1
	Group string // job ID; may be empty
	// Body is a CloudEvents JSON envelope. Publish copies it. Consumers must not change it.
	Body []byte
	// NotBefore delays the first delivery; zero means at once.
	NotBefore time.Time
}

// Delivery is a message given to one consumer and hidden from others until its visibility time-out.
type Delivery struct {
	Message
	Receipt string // identifies this delivery, not the message
	Attempt int    // 1 on the first delivery
}

// DeadLetter is a message that will not be delivered again.
type DeadLetter struct {
	Message
	Queue    string // "" if no queue is routed to the message
	Reason   string // from the consumer, or from the driver if no consumer answered
	Attempts int
	At       time.Time
}

// Route lists the queues that get an event type. Messages of a type without an entry become dead letters of
// queue "", with a reason. A type with an empty list has no consumers; its messages are dropped.
type Route map[string][]string

// QueueConfig holds the delivery rules of one queue.
type QueueConfig struct {
	Name        string
	Visibility  time.Duration // how long a delivery stays hidden
	MaxAttempts int           // deliveries before the message is a dead letter
	// BackoffMin and BackoffMax bound the doubling delay before a failed message is delivered again.
	BackoffMin, BackoffMax time.Duration
}

// Bus carries messages. All methods are safe for concurrent use. A method called with a finished context
// returns the context's error and changes nothing. If the driver was not configured with a queue, methods
// return ErrUnknownQueue for it.
type Bus interface {
	// Publish stores messages durably in every queue that their type routes to. A message ID published
	// twice may be delivered twice. If Publish returns an error, any of the messages may have been stored;
	// after ErrTooLarge and ErrInvalid none was.
	Publish(ctx context.Context, messages ...Message) error
	// Receive returns up to limit visible messages of a queue. It waits up to wait for the first one, and
	// then returns none. Each message is hidden for the queue's visibility time-out. If no answer comes in
	// that time, the message becomes visible again, or a dead letter if this was its last attempt.
	Receive(ctx context.Context, queue string, limit int, wait time.Duration) ([]Delivery, error)
	// Ack removes messages permanently. A stale receipt is no error if its message no longer exists.
	// Otherwise Ack returns ErrStaleReceipt, and still removes the messages of the other receipts.
	// A crash soon after an Ack may restore its messages; consumers must expect that (at-least-once delivery).
	Ack(ctx context.Context, queue string, receipts ...string) error
	// Nack makes a message visible again after the queue's back-off, or a dead letter after its last
	// attempt. The receipt is then stale, as after Ack and Reject: another Nack, Reject or Extend with it
	// fails with ErrStaleReceipt.
	Nack(ctx context.Context, queue, receipt, reason string) error
	// Reject makes a message a dead letter at once.
	Reject(ctx context.Context, queue, receipt, reason string) error
	// Extend hides a delivery for another visibility time-out from now, for work that takes long.
	Extend(ctx context.Context, queue, receipt string) error
	// DeadLetters lists up to limit dead letters of a queue ("" means all queues), oldest first.
	DeadLetters(ctx context.Context, queue string, limit int) ([]DeadLetter, error)
	// Redrive puts dead letters back in their queue and resets their attempts. Without IDs, it takes all of
	// the queue ("" means all queues). A letter without a queue is routed again, and stays if there is still
	// no route. Redrive returns how many dead letters it put back.
	Redrive(ctx context.Context, queue string, ids ...string) (int, error)
	// Depth returns how many messages a queue holds, hidden and delayed ones included.
	Depth(ctx context.Context, queue string) (int, error)
	// Close releases the driver's resources and wakes waiting receivers. Later calls fail with ErrClosed;
	// calling Close again is allowed.
	Close() error
}
