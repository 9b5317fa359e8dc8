package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// execute hands the work to the agents of a gang that is up: they poll for it.
func (b *Functions) execute(u *unit.Unit, event events.Event) error {
	e, ok := event.Data.(events.ClusterUp)
	if !ok {
		return unexpected(events.FnExecute, event.Data)
	}
	cl, found, err := book.Get[record.Cluster](u, record.ClusterKey(e.Cluster))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	return b.start(u, cl)
}
