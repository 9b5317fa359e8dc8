package bustest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var lifeTests = map[string]func(*testing.T, *fixture){
	"every method fails after Close":                     testClosed,
	"Close during use stops all calls cleanly":           testCloseDuringUse,
	"a finished context is an error and changes nothing": testCancelled,
}

func (f *fixture) everyCall(receipt string) map[string]func(context.Context) error {
	calls := f.calls(workQueue, receipt)
	calls["Publish"] = func(ctx context.Context) error {
		return f.Publish(ctx, message("new", workType), message("new dead", unknownType))
	}
	return calls
}

func testClosed(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	receipt := f.one(workQueue, "a", 1).Receipt
	if err := f.Close(); err != nil {
		f.Fatalf("Close: %v", err)
	}
	for name, call := range f.everyCall(receipt) {
		if err := call(f.Context()); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
	if err := f.Close(); err != nil {
		f.Errorf("Close again: %v", err)
	}
}

func testCloseDuringUse(_ *testing.T, f *fixture) {
	var closed atomic.Bool
	f.inParallel(func(ctx context.Context, worker int) error {
		if worker == 0 {
			defer closed.Store(true)
			return f.Close()
		}
		for {
			after := closed.Load()
			err := f.Publish(ctx, message("a", bothType))
			if err == nil {
				var d []bus.Delivery
				if d, err = f.Receive(ctx, workQueue, 2, 0); err == nil {
					err = f.Ack(ctx, workQueue, receipts(d)...)
				}
			}
			switch {
			case errors.Is(err, bus.ErrClosed):
				return nil
			case err == nil && after:
				return errors.New("the bus works after Close")
			case err != nil:
				return err
			}
		}
	})
}

func testCancelled(_ *testing.T, f *fixture) {
	f.kill(workType, workQueue, "dead")
	f.publish(workType, "a", "b")
	d := f.receive(workQueue, 1)
	if len(d) != 1 {
		f.Fatalf("received %s", showAll(d))
	}
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	expired, cancel := context.WithDeadline(f.Context(), epoch)
	defer cancel()
	for name, call := range f.everyCall(d[0].Receipt) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			f.Errorf("%s with a cancelled context = %v", name, err)
		}
		if err := call(expired); !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("%s past its deadline = %v", name, err)
		}
	}
	f.depth(workQueue, 2)
	f.dead("", "dead")
	f.ack(workQueue, d[0].Receipt)
	if rest := f.receiveAll(workQueue); len(rest) != 1 || rest[0].Attempt != 1 {
		f.Errorf("received %s, want the other message's first attempt", showAll(rest))
	}
}
