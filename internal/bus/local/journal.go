package local

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// journal stores the data that must survive a restart: messages, their delivery counts, and dead letters. The index
// in memory decides; the journal records.
type journal interface {
	// next returns a number larger than all earlier ones in the life of the journal.
	next() uint64
	// commit makes a change durable before it returns.
	commit(ctx context.Context, c change) error
	// later makes a change durable soon, in the order of the calls.
	later(c change) error
	// read returns the messages of deliveries, except those that no longer exist.
	read(queue string, taken []delivery) ([]bus.Delivery, error)
	// dead calls yield with the letters after the given one, in order, until yield returns false. It
	// sees every change made before the call. yield must not call the journal.
	dead(ctx context.Context, after letterID, yield func(letter) bool) error
	close() error
}

// change is written as a unit. A number identifies a message in one queue or a
// dead letter, and is never used again in the life of a journal.
type change struct {
	insert []stored   // messages into queues
	states []state    // new states of messages
	remove []ref      // messages to remove
	bury   []burial   // messages that become dead letters
	dead   []letter   // dead letters that were never in a queue
	exhume []letterID // dead letters to remove
}

type ref struct {
	queue  string
	number uint64
}

type stored struct {
	ref
	message *bus.Message
}

// state is the number of deliveries of a message and, if it waits for its next delivery, the time of that. until is 0
// while the message is in flight.
type state struct {
	ref
	attempts int32
	until    int64 // Unix nanoseconds
}

type burial struct {
	ref
	letter   letterID
	attempts int
	reason   string
}

// letterID orders dead letters by the time when they became dead.
type letterID struct {
	at     int64 // Unix nanoseconds
	number uint64
}

func (a letterID) compare(b letterID) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number))
}

type letter struct {
	id letterID
	bus.DeadLetter
}

// delivery is the content of a receipt: delivery number attempts of a message. Numbers are
// never reused, so a receipt never becomes valid for another delivery.
type delivery struct {
	number   uint64
	attempts int32
}

func (d delivery) receipt() string {
	return strconv.FormatUint(d.number, 36) + "." + strconv.FormatInt(int64(d.attempts), 36)
}

func parseReceipt(s string) (delivery, bool) {
	number, attempts, ok := strings.Cut(s, ".")
	if !ok {
		return delivery{}, false
	}
	n, err := strconv.ParseUint(number, 36, 64)
	if err != nil {
		return delivery{}, false
	}
	a, err := strconv.ParseInt(attempts, 36, 32)
	if err != nil || a < 1 {
		return delivery{}, false
	}
	return delivery{number: n, attempts: int32(a)}, true
}

// unixNano is t.UnixNano, limited to the range of int64 instead of overflowing.
func unixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return t.UnixNano()
}
