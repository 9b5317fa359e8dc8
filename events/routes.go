package events

import "strings"

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
		TypeDAGSuspended:     {FnInterrupt},
		TypeDAGResumed:       {FnSchedule},
		TypeQueueSuspended:   {FnInterrupt},
		TypeQueueResumed:     {FnSchedule},
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
		TypeLeaseDue:         {FnSchedule},
		TypeGangBroken:       {FnInterrupt},
		TypePriceMoved:       {FnBid},
		TypeMarketTicked:     {FnTick},
		TypeCatalogRefresh:   {FnRefresh},
		TypeBrokerReconcile:  {FnReconcile},
	}
}

// Announced are the types that others may want to hear of, a handful in the life of a job: on AWS they are put on the
// event bus as well.
func Announced() []string {
	return []string{TypeDAGRejected, TypeDAGPlanned, TypeDAGFinished, TypeTaskFailed}
}

// ShortName is what a type of event is called among people: dag.finished of tradewind.dag.finished.v1.
func ShortName(typ string) string {
	return strings.TrimSuffix(strings.TrimPrefix(typ, "tradewind."), ".v1")
}

// TypeOf is the type of an event by its short name. ok is false when there is none.
func TypeOf(short string) (typ string, ok bool) {
	typ = "tradewind." + short + ".v1"
	_, ok = Routes()[typ]
	return typ, ok
}

// Functions returns the names of all functions, in the order a job meets them.
func Functions() []string {
	return []string{
		FnSubmit, FnOptimize, FnBid, FnAdvance, FnSchedule, FnProvision,
		FnExecute, FnInterrupt, FnTick, FnRefresh, FnReconcile, FnHook,
	}
}
