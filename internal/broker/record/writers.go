package record

import "github.com/tradewind-broker/tradewind/events"

// FnAPI is the name of the source in changes that requests of users and agents cause. It is not a function that
// reacts to events.
const FnAPI = "api"

// FnServices is the name of the source in changes that the states of managed services cause. It is not a function that
// reacts to events either.
const FnServices = "services"

// Writers returns the partitions whose records a function writes, as patterns in which * matches anything. A
// deployment gives each function only the right to write these, and the simulator checks that no function writes
// others. Excluded are the outbox and the partitions of a host's adapters (logs, tunnels, terminated clusters, sent
// notifications).
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
	case FnServices: // it also acts in the place of agents, which call the API
		return append(append(all, queued...), "seen#"+FnAPI+"#*", "seen#agent#*", PartBlocks)
	case FnAPI: // except what only functions learn: prices, reserved capacity, finished jobs by name
		return append(append(all, queued...), "seen#*", PartQueues, PartBlocks, PartJobs, PartPast, PartExpiry,
			PartBuckets)
	}
	return all
}
