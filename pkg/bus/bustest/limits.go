package bustest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var limitTests = map[string]func(*testing.T, *fixture){
	"a message of maximum size is accepted, one byte more is not":   testMaxMessage,
	"attributes of maximum size are accepted, one byte more is not": testMaxAttributes,
	"an invalid message is rejected":                                testInvalidMessage,
	"an unknown queue is an error in every call":                    testUnknownQueue,
}

// refused fails the test unless Publish rejects the message together with all other messages of the call.
func (f *fixture) refused(what string, m bus.Message, reason error) {
	f.Helper()
	err := f.Publish(f.Context(), message("before", workType), m, message("after", unknownType))
	if !errors.Is(err, reason) {
		f.Errorf("%s: Publish = %v, want %v", what, err, reason)
	}
	f.depth(workQueue, 0)
	f.dead("")
}

// large is a JSON body of n bytes.
func large(n int) []byte {
	return slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), n-2), []byte(`"`))
}

func testMaxMessage(_ *testing.T, f *fixture) {
	m := message("large", workType)
	m.Body = large(bus.MaxMessageBytes + 1)
	f.refused("a body a byte too large", m, bus.ErrTooLarge)
	m.Body = large(bus.MaxMessageBytes)
	f.send(m)
	if d := f.one(workQueue, "large", 1); !sameMessage(d.Message, m) {
		f.Errorf("the largest message has %d bytes", len(d.Body))
	}
}

func testMaxAttributes(_ *testing.T, f *fixture) {
	long := strings.Repeat("é", bus.MaxAttributeBytes/2)
	for what, m := range map[string]bus.Message{
		"ID":    {ID: long + "x", Type: workType, Body: body("a")},
		"type":  {ID: "a", Type: long + "x", Body: body("a")},
		"group": {ID: "a", Type: workType, Group: long + "x", Body: body("a")},
	} {
		f.refused("a long "+what, m, bus.ErrTooLarge)
	}
	m := bus.Message{ID: long, Type: workType, Group: long, Body: body("a")}
	f.send(m)
	if d := f.one(workQueue, long, 1); !sameMessage(d.Message, m) {
		f.Errorf("received %+v", d)
	}
	m.Type = long
	f.send(m)
	if l := f.dead("", long); !sameMessage(l[0].Message, m) {
		f.Errorf("dead letter %+v", l)
	}
}

func testInvalidMessage(_ *testing.T, f *fixture) {
	f.refused("no ID", bus.Message{Type: workType, Body: body("a")}, bus.ErrInvalid)
	f.refused("no type", bus.Message{ID: "a", Body: body("a")}, bus.ErrInvalid)
	f.refused("ID not UTF-8", bus.Message{ID: "\xff", Type: workType, Body: body("a")}, bus.ErrInvalid)
	f.refused("group not UTF-8", bus.Message{ID: "a", Type: workType, Group: "\xff", Body: body("a")}, bus.ErrInvalid)
}

// calls returns a call of every method with a queue argument; each is valid for workQueue.
func (f *fixture) calls(queue, receipt string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Receive": func(ctx context.Context) error { _, err := f.Receive(ctx, queue, 1, time.Hour); return err },
		"Ack":     func(ctx context.Context) error { return f.Ack(ctx, queue, receipt) },
		"Nack":    func(ctx context.Context) error { return f.Nack(ctx, queue, receipt, "x") },
		"Reject":  func(ctx context.Context) error { return f.Reject(ctx, queue, receipt, "x") },
		"Extend":  func(ctx context.Context) error { return f.Extend(ctx, queue, receipt) },
		"DeadLetters": func(ctx context.Context) error {
			_, err := f.DeadLetters(ctx, queue, 1)
			return err
		},
		"Redrive": func(ctx context.Context) error { _, err := f.Redrive(ctx, queue); return err },
		"Depth":   func(ctx context.Context) error { _, err := f.Depth(ctx, queue); return err },
	}
}

func testUnknownQueue(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	receipt := f.one(workQueue, "a", 1).Receipt
	for name, call := range f.calls("none", receipt) {
		if err := call(f.Context()); !errors.Is(err, bus.ErrUnknownQueue) {
			f.Errorf("%s = %v, want ErrUnknownQueue", name, err)
		}
	}
	for _, name := range []string{"Receive", "Ack", "Nack", "Reject", "Extend", "Depth"} { // "" is unknown, too
		if err := f.calls("", receipt)[name](f.Context()); !errors.Is(err, bus.ErrUnknownQueue) {
			f.Errorf("%s of queue \"\" = %v, want ErrUnknownQueue", name, err)
		}
	}
	f.ack(workQueue, receipt)
}
