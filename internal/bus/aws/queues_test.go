package aws

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func TestReceiptIsValidOnceForItsDelivery(t *testing.T) {
	var h deliveries[string]
	add := func(attempt int, body string) string {
		return h.Add("work", "m.1", delivered[string]{Attempt: attempt, Handle: "h", Content: body,
			Until: now.Add(time.Minute)}, now)
	}
	first := add(1, "one")
	second := add(2, "two")
	for _, r := range []string{first, "", ".", "m.1", "m.1.", second + "0", "x." + second} {
		if _, _, over, err := h.Take("work", r, gone); !errors.Is(err, bus.ErrStaleReceipt) || over {
			t.Errorf("%q: %v, %v", r, over, err)
		}
	}
	if _, _, _, err := h.Take("audit", second, gone); !errors.Is(err, bus.ErrStaleReceipt) {
		t.Errorf("in another queue: %v", err)
	}
	d, undo, _, err := h.Take("work", second, gone)
	if err != nil || d.Attempt != 2 || d.Content != "two" {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, _, over, err := h.Take("work", second, gone); !errors.Is(err, bus.ErrStaleReceipt) || !over {
		t.Errorf("again: %v, %v", over, err)
	}
	undo()
	if d, _, _, err := h.Take("work", second, answered); err != nil || d.Content != "two" {
		t.Errorf("after undo: %+v, %v", d, err)
	}
	if _, _, over, err := h.Take("work", first, gone); over || err == nil {
		t.Errorf("the first receipt of a message that still exists: %v, %v", over, err)
	}
}

func TestOldDeliveriesAreForgotten(t *testing.T) {
	var h deliveries[int]
	for i := range 5000 {
		at := now.Add(time.Duration(i) * time.Second)
		h.Add("work", fmt.Sprint(i), delivered[int]{Until: at.Add(time.Minute)}, at)
	}
	if n := len(h.entries); n > 2500 {
		t.Errorf("%d of 5000 entries remain", n)
	}
}

func TestCloseEndsCallsWithErrClosed(t *testing.T) {
	l := newLife()
	ctx, end, err := l.Begin(t.Context(), "receive")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	<-ctx.Done()
	err = errors.New("the call was interrupted")
	if end(&err); !errors.Is(err, bus.ErrClosed) {
		t.Error(err)
	}
	if _, _, err := l.Begin(t.Context(), "receive"); !errors.Is(err, bus.ErrClosed) {
		t.Error(err)
	}
}

func TestCancelledCallerGetsItsContextError(t *testing.T) {
	l := newLife()
	defer l.Close()
	outer, cancel := context.WithCancel(t.Context())
	_, end, err := l.Begin(outer, "receive")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = errors.New("the call was interrupted")
	if end(&err); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := l.Begin(outer, "receive"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
