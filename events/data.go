package events

import (
	"strconv"
	"strings"
)

// Type implements Data.
func (ObjectCreated) Type() string { return TypeObjectCreated }

// Subject implements Data.
func (e ObjectCreated) Subject() string { return e.Key }

// Group implements Data.
func (e ObjectCreated) Group() string { return e.Key }

// Type implements Data.
func (DAGSubmitted) Type() string { return TypeDAGSubmitted }

// Subject implements Data.
func (e DAGSubmitted) Subject() string { return e.Job }

// Group implements Data.
func (e DAGSubmitted) Group() string { return e.Job }

// Type implements Data.
func (DAGRejected) Type() string { return TypeDAGRejected }

// Subject implements Data.
func (e DAGRejected) Subject() string { return e.Key }

// Group implements Data.
func (e DAGRejected) Group() string { return e.Key }

// Type implements Data.
func (DAGReplan) Type() string { return TypeDAGReplan }

// Subject implements Data.
func (e DAGReplan) Subject() string { return e.Job }

// Group implements Data.
func (e DAGReplan) Group() string { return e.Job }

// Type implements Data.
func (DAGPlanned) Type() string { return TypeDAGPlanned }

// Subject implements Data.
func (e DAGPlanned) Subject() string { return e.Job }

// Group implements Data.
func (e DAGPlanned) Group() string { return e.Job }

// Type implements Data.
func (DAGAdvance) Type() string { return TypeDAGAdvance }

// Subject implements Data.
func (e DAGAdvance) Subject() string { return e.Job }

// Group implements Data.
func (e DAGAdvance) Group() string { return e.Job }

// Type implements Data.
func (DAGCancel) Type() string { return TypeDAGCancel }

// Subject implements Data.
func (e DAGCancel) Subject() string { return e.Job }

// Group implements Data.
func (e DAGCancel) Group() string { return e.Job }

// Type implements Data.
func (DAGSuspended) Type() string { return TypeDAGSuspended }

// Subject implements Data.
func (e DAGSuspended) Subject() string { return e.Job }

// Group implements Data.
func (e DAGSuspended) Group() string { return e.Job }

// Type implements Data.
func (DAGResumed) Type() string { return TypeDAGResumed }

// Subject implements Data.
func (e DAGResumed) Subject() string { return e.Job }

// Group implements Data.
func (e DAGResumed) Group() string { return e.Job }

// Type implements Data.
func (QueueSuspended) Type() string { return TypeQueueSuspended }

// Subject implements Data.
func (e QueueSuspended) Subject() string { return e.Queue }

// Group implements Data.
func (e QueueSuspended) Group() string { return e.Queue }

// Type implements Data.
func (QueueResumed) Type() string { return TypeQueueResumed }

// Subject implements Data.
func (e QueueResumed) Subject() string { return e.Queue }

// Group implements Data.
func (e QueueResumed) Group() string { return e.Queue }

// Type implements Data.
func (DAGEnding) Type() string { return TypeDAGEnding }

// Subject implements Data.
func (e DAGEnding) Subject() string { return e.Job }

// Group implements Data.
func (e DAGEnding) Group() string { return e.Job }

// Type implements Data.
func (DAGSettled) Type() string { return TypeDAGSettled }

// Subject implements Data.
func (e DAGSettled) Subject() string { return e.Job }

// Group implements Data.
func (e DAGSettled) Group() string { return e.Job }

// Type implements Data.
func (DAGFinished) Type() string { return TypeDAGFinished }

// Subject implements Data.
func (e DAGFinished) Subject() string { return e.Job }

// Group implements Data.
func (e DAGFinished) Group() string { return e.Job }

// Type implements Data.
func (TaskReady) Type() string { return TypeTaskReady }

// Subject implements Data.
func (e TaskReady) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskReady) Group() string { return e.Queue }

// Type implements Data.
func (TaskAdmitted) Type() string { return TypeTaskAdmitted }

// Subject implements Data.
func (e TaskAdmitted) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskAdmitted) Group() string { return e.Job }

// Type implements Data.
func (TaskStarted) Type() string { return TypeTaskStarted }

// Subject implements Data.
func (e TaskStarted) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskStarted) Group() string { return e.Job }

// Type implements Data.
func (TaskCheckpointed) Type() string { return TypeTaskCheckpointed }

// Subject implements Data.
func (e TaskCheckpointed) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskCheckpointed) Group() string { return e.Job }

// Type implements Data.
func (TaskSucceeded) Type() string { return TypeTaskSucceeded }

// Subject implements Data.
func (e TaskSucceeded) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskSucceeded) Group() string { return e.Job }

// Type implements Data.
func (TaskFailed) Type() string { return TypeTaskFailed }

// Subject implements Data.
func (e TaskFailed) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e TaskFailed) Group() string { return e.Job }

// Type implements Data.
func (ClusterUp) Type() string { return TypeClusterUp }

// Subject implements Data.
func (e ClusterUp) Subject() string { return e.Cluster }

// Group implements Data.
func (e ClusterUp) Group() string { return e.Job }

// Type implements Data.
func (ClusterLost) Type() string { return TypeClusterLost }

// Subject implements Data.
func (e ClusterLost) Subject() string { return e.Cluster }

// Group implements Data.
func (e ClusterLost) Group() string { return e.Job }

// Type implements Data.
func (ClusterRelease) Type() string { return TypeClusterRelease }

// Subject implements Data.
func (e ClusterRelease) Subject() string { return e.Cluster }

// Group implements Data.
func (e ClusterRelease) Group() string { return e.Job }

// Type implements Data.
func (CapacityFreed) Type() string { return TypeCapacityFreed }

// Subject implements Data.
func (e CapacityFreed) Subject() string { return e.Queue }

// Group implements Data.
func (e CapacityFreed) Group() string { return e.Queue }

// Type implements Data.
func (LocationBlocked) Type() string { return TypeLocationBlocked }

// Subject implements Data.
func (e LocationBlocked) Subject() string { return location(e.Cloud, e.Region, e.Zone, e.InstanceType) }

// Group implements Data.
func (e LocationBlocked) Group() string { return e.Cloud }

// Type implements Data.
func (SpotInterrupted) Type() string { return TypeSpotInterrupted }

// Subject implements Data.
func (e SpotInterrupted) Subject() string { return e.Cluster }

// Group implements Data.
func (e SpotInterrupted) Group() string { return e.Job }

// Type implements Data.
func (LeaseDue) Type() string { return TypeLeaseDue }

// Subject implements Data.
func (e LeaseDue) Subject() string { return e.Cluster }

// Group implements Data.
func (e LeaseDue) Group() string { return e.Queue }

// Type implements Data.
func (GangBroken) Type() string { return TypeGangBroken }

// Subject implements Data.
func (e GangBroken) Subject() string { return task(e.Job, e.Task) }

// Group implements Data.
func (e GangBroken) Group() string { return e.Job }

// Type implements Data.
func (PriceMoved) Type() string { return TypePriceMoved }

// Subject implements Data.
func (e PriceMoved) Subject() string { return e.Job }

// Group implements Data.
func (e PriceMoved) Group() string { return e.Job }

// Type implements Data.
func (MarketTicked) Type() string { return TypeMarketTicked }

// Subject implements Data.
func (MarketTicked) Subject() string { return "market" }

// Group implements Data.
func (MarketTicked) Group() string { return "market" }

// Type implements Data.
func (CatalogRefresh) Type() string { return TypeCatalogRefresh }

// Subject implements Data.
func (CatalogRefresh) Subject() string { return "catalog" }

// Group implements Data.
func (CatalogRefresh) Group() string { return "catalog" }

// Type implements Data.
func (BrokerReconcile) Type() string { return TypeBrokerReconcile }

// Subject implements Data.
func (BrokerReconcile) Subject() string { return "broker" }

// Group implements Data.
func (BrokerReconcile) Group() string { return "broker" }

func task(job string, index int) string { return job + "/" + strconv.Itoa(index) }

func location(parts ...string) string {
	return strings.TrimRight(strings.Join(parts, "/"), "/")
}

// All returns one zero value of every event type, in the order in which they occur in the life of a job.
func All() []Data {
	return []Data{
		ObjectCreated{},
		DAGSubmitted{},
		DAGRejected{},
		DAGReplan{},
		DAGPlanned{},
		DAGAdvance{},
		DAGCancel{},
		DAGSuspended{},
		DAGResumed{},
		QueueSuspended{},
		QueueResumed{},
		DAGEnding{},
		DAGSettled{},
		DAGFinished{},
		TaskReady{},
		TaskAdmitted{},
		TaskStarted{},
		TaskCheckpointed{},
		TaskSucceeded{},
		TaskFailed{},
		ClusterUp{},
		ClusterLost{},
		ClusterRelease{},
		CapacityFreed{},
		LocationBlocked{},
		SpotInterrupted{},
		LeaseDue{},
		GangBroken{},
		PriceMoved{},
		MarketTicked{},
		CatalogRefresh{},
		BrokerReconcile{},
	}
}
