package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// lifetime is the lifetime of a bus, from newLife to Close.
type lifetime struct {
	ctx context.Context
	end context.CancelFunc
}

// newLife starts a lifetime.
func newLife() lifetime {
	var l lifetime
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends it and cancels running calls.
func (l *lifetime) Close() { l.end() }

// Begin starts a call, or fails if the bus is closed. It returns a context that ends with the bus, and a function that
// converts the call's error: to bus.ErrClosed or to ctx's own error, if that is the cause.
func (l *lifetime) Begin(ctx context.Context, what string) (context.Context, func(*error), error) {
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
