package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// execute gives the agents of a cluster or gang that is up their work: they poll for it.
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
