package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
)

// execute makes work available for the agents of a cluster or gang that is up. The agents poll for it.
func (b *Functions) execute(u *txn.Unit, event events.Event) error {
	e, ok := event.Data.(events.ClusterUp)
	if !ok {
		return unexpected(events.FnExecute, event.Data)
	}
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(e.Cluster))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	return b.start(u, cl)
}
