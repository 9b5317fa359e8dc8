package lambdahost

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
)

// ErrEnvelope is returned for an AWS event that should not be in a queue of ours. It is final.
var ErrEnvelope = errors.New("lambdahost: unexpected event")

// Notices reads EC2's warnings about machines.
type Notices interface {
	// Notice reads an EC2 event as EventBridge wrote it. ours is false if it is irrelevant, or about a machine that is
	// not this deployment's or that was ended on request. An unreadable event wraps ErrEnvelope.
	Notice(ctx context.Context, raw []byte) (n events.SpotInterrupted, ours bool, err error)
}

// Decoder decodes deliveries to events, from our functions or from AWS.
type Decoder struct {
	Notices Notices // for functions that receive EC2's warnings
}

// Decode decodes the body of a delivery: an event of ours, or an AWS event as AWS wrote it. ok is false if the event is
// irrelevant, for example about a machine that is not ours. Final errors wrap ErrEnvelope,
// busaws.ErrUnreadable, events.ErrMalformed or events.ErrUnknownType.
func (d Decoder) Decode(ctx context.Context, body []byte) (e events.Event, ok bool, err error) {
	env, err := busaws.Decode(body)
	if err != nil {
		return e, false, err
	}
	if env.Kind == busaws.External {
		return d.foreign(ctx, env.Foreign)
	}
	if env.Ref != nil {
		return e, false, fmt.Errorf("%w: a reference instead of a body", ErrEnvelope)
	}
	e, err = events.Parse(env.Message.Body)
	return e, err == nil, err
}

// final reports whether delivering a message again is pointless.
func final(err error) bool {
	return errors.Is(err, ErrEnvelope) || errors.Is(err, busaws.ErrUnreadable) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrUnknownType)
}
