package events

// The functions that react to events. Each is a Lambda, a worker of one process, or a step of
// the simulator.
const (
	FnSubmit    = "submit"
	FnOptimize  = "optimize"
	FnBid       = "bid"
	FnAdvance   = "advance"
	FnSchedule  = "schedule"
	FnProvision = "provision"
	FnExecute   = "execute"
	FnInterrupt = "interrupt"
	FnTick      = "tick"
	FnRefresh   = "refresh"
	FnReconcile = "reconcile"
	FnHook      = "hook"
)

// Routes says which functions react to each event type. Every type has an
// entry; an empty one is news for people and their hooks only.
func Routes() map[string][]string {
	return map[string][]string{
		TypeObjectCreated:    {FnSubmit},
		TypeDAGSubmitted:     {FnOptimize},
		TypeDAGRejected:      {FnHook},
		TypeDAGReplan:        {FnOptimize},
		TypeDAGPlanned:       {FnAdvance, FnSchedule},
		TypeDAGAdvance:       {FnAdvance},
		TypeDAGCancel:        {FnAdvance},
		TypeDAGEnding:        {FnProvision, FnSchedule},
		TypeDAGSettled:       {FnAdvance},
		TypeDAGFinished:      {FnHook},
		TypeTaskReady:        {FnSchedule},
		TypeTaskAdmitted:     {FnProvision},
		TypeTaskStarted:      {},
		TypeTaskCheckpointed: {},
		TypeTaskSucceeded:    {FnAdvance, FnProvision},
		TypeTaskFailed:       {FnAdvance, FnProvision},
		TypeClusterUp:        {FnExecute},
		TypeClusterLost:      {FnProvision},
		TypeClusterRelease:   {FnProvision},
		TypeCapacityFreed:    {FnSchedule},
		TypeLocationBlocked:  {},
		TypeSpotInterrupted:  {FnInterrupt},
		TypeGangBroken:       {FnInterrupt},
		TypePriceMoved:       {FnBid},
		TypeMarketTicked:     {FnTick},
		TypeCatalogRefresh:   {FnRefresh},
		TypeBrokerReconcile:  {FnReconcile},
	}
}

// Functions returns the names of all functions, in the order a job meets them.
func Functions() []string {
	return []string{
		FnSubmit, FnOptimize, FnBid, FnAdvance, FnSchedule, FnProvision,
		FnExecute, FnInterrupt, FnTick, FnRefresh, FnReconcile, FnHook,
	}
}
