package record

import "github.com/tradewind-broker/tradewind/events"

// FnAPI stands for the requests of users and agents. It is not a function that reacts to events.
const FnAPI = "api"

// Writers returns the partitions whose records a function writes, as patterns in which * matches anything. A deployment
// gives each function the right to write these only; the simulator checks that none writes others. The outbox and what
// the adapters of a host write (logs, tunnels, graves of clusters, sent news) are not part of it.
func Writers(fn string) []string {
	all := []string{"job#*", PartActive, "seen#" + fn + "#*"}
	queued := []string{"queue#*", "pool#*", PartPools}
	switch fn {
	case events.FnSubmit:
		return append(all, PartJobs, PartBuckets)
	case events.FnAdvance:
		return append(all, "pool#*", PartHistory, PartExpiry)
	case events.FnSchedule:
		return append(append(all, queued...), PartQueues, PartQueueGate, PartMarket, PartStands, SeatsKey().Partition)
	case events.FnProvision:
		return append(append(all, queued...), PartBlocks, PartHeld)
	case events.FnInterrupt, events.FnExecute:
		return append(append(all, queued...), PartBlocks)
	case events.FnTick:
		return append(append(all, queued...), PartMarket, PartPrices)
	case events.FnRefresh:
		return append(all, PartBlocks, PartHeld)
	case events.FnReconcile:
		return append(append(all, queued...), PartBlocks, PartJobs, PartPast, PartExpiry, PartBuckets)
	case FnAPI: // not what only functions learn: prices, reserved capacity, finished jobs by name
		return append(append(all, queued...), "seen#*", PartQueues, PartBlocks, PartJobs, PartPast, PartExpiry,
			PartBuckets)
	}
	return all
}
