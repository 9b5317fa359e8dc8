package sim

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// handle runs a function on a batch and answers each delivery, as every host does.
func (e *engine) handle(ctx context.Context, b *broker.Broker, q *queue, batch []bus.Delivery) {
	list := make([]events.Event, 0, len(batch))
	parsed := make([]bus.Delivery, 0, len(batch))
	for _, d := range batch {
		ev, err := events.Parse(d.Body)
		if err != nil {
			e.w.Violatef(check.InvErrors, "%s: %v", d.ID, err)
			return
		}
		e.w.Say(e.w.actor(), "takes", ev.Type()+" "+d.ID+" "+ev.Data.Subject()+" #"+strconv.Itoa(d.Attempt))
		list, parsed = append(list, ev), append(parsed, d)
	}
	errs := b.Functions.Handle(ctx, q.Name, list)
	for i, d := range parsed {
		e.answer(ctx, q, d, errs[i])
	}
}

func (e *engine) answer(ctx context.Context, q *queue, d bus.Delivery, err error) {
	var answer error
	switch {
	case err == nil:
		answer = e.w.bus.Ack(ctx, q.Name, d.Receipt)
	case errors.Is(err, record.ErrFinal):
		e.w.check.Refused(q.Name, d, err)
		answer = e.w.bus.Reject(ctx, q.Name, d.Receipt, err.Error())
	default:
		e.w.Say(e.w.actor(), "fails", d.ID+": "+err.Error())
		e.w.check.Failed(q.Name, d, err)
		answer = e.w.bus.Nack(ctx, q.Name, d.Receipt, err.Error())
	}
	if answer != nil && !errors.Is(answer, bus.ErrStaleReceipt) {
		e.w.Violate(check.InvErrors, answer.Error())
	}
}

// seal makes an agent's token; only its contents matter here.
func seal(c wire.Claims) (string, error) {
	body, err := json.Marshal(c)
	return string(body), err
}

func unseal(token string) (c wire.Claims, err error) {
	err = json.Unmarshal([]byte(token), &c)
	return c, err
}
