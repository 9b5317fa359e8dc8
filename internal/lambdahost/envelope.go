package lambdahost

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	busaws "github.com/tradewind-broker/tradewind/pkg/bus/aws"
)

// ErrEnvelope says that an event of AWS is none that a queue of ours should hold. It is final.
var ErrEnvelope = errors.New("lambdahost: an event that nothing here reacts to")

// Notices reads what EC2 tells of machines.
type Notices interface {
	// Notice reads an event of EC2 as EventBridge wrote it. ours is false when it is no news, or of a machine that is
	// none of this deployment's or that was ended on request. What cannot be read wraps ErrEnvelope.
	Notice(ctx context.Context, raw []byte) (n events.SpotInterrupted, ours bool, err error)
}

// Decoder turns deliveries into events, whoever they are from.
type Decoder struct {
	Notices Notices // where warnings of EC2 arrive
}

// Decode reads the body of a delivery: an event of ours, or one of AWS as AWS wrote it. ok is false of one that
// concerns nobody: a machine that is not ours, a change that is no news. Errors that are final wrap ErrEnvelope,
// busaws.ErrUnreadable, events.ErrMalformed or events.ErrUnknownType.
func (d Decoder) Decode(ctx context.Context, body []byte) (e events.Event, ok bool, err error) {
	env, err := busaws.Decode(body)
	if err != nil {
		return e, false, err
	}
	if env.Kind == busaws.Others {
		return d.foreign(ctx, env.Foreign)
	}
	if env.Ref != nil {
		return e, false, fmt.Errorf("%w: a reference in the place of a body", ErrEnvelope)
	}
	e, err = events.Parse(env.Message.Body)
	return e, err == nil, err
}

// final says whether delivering a message again is pointless.
func final(err error) bool {
	return errors.Is(err, ErrEnvelope) || errors.Is(err, busaws.ErrUnreadable) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrUnknownType)
}
