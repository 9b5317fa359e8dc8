// Package driver is what the buses on a cloud's queues share: the end of a bus in the midst of calls, and what
// a bus remembers of its deliveries.
package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Life is that of a bus, from NewLife to Close.
type Life struct {
	ctx context.Context
	end context.CancelFunc
}

// NewLife begins one.
func NewLife() Life {
	var l Life
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends it: calls under way are cancelled.
func (l *Life) Close() { l.end() }

// Begin says whether a call may go on, and returns a context that ends with the bus and a function that turns the
// call's error into what the caller should see: bus.ErrClosed or ctx's own where that is why.
func (l *Life) Begin(ctx context.Context, what string) (context.Context, func(*error), error) {
	if l.ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, bus.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(bus.ErrClosed) })
	return inner, func(err *error) {
		stop()
		switch {
		case *err == nil:
		case ctx.Err() != nil && !errors.Is(*err, bus.ErrStaleReceipt):
			*err = fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), *err))
		case errors.Is(context.Cause(inner), bus.ErrClosed):
			*err = fmt.Errorf("%s: %w", what, bus.ErrClosed)
		default:
			*err = fmt.Errorf("%s: %w", what, *err)
		}
		cancel(nil)
	}, nil
}
