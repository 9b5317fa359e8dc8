package events

import "strings"

// The functions that handle events. Each is a Lambda function, a worker in a process, or a step of the simulator.
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

// Routes returns the functions that handle each event type. Every type has an entry. An event with an empty entry is
// only news for users and their hooks.
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

// Announced returns the types that other systems may be interested in. Only a handful of such events occur in the
// life of a job. On AWS they are also put on the event bus.
func Announced() []string {
	return []string{TypeDAGRejected, TypeDAGPlanned, TypeDAGFinished, TypeTaskFailed}
}

// ShortName returns the type without prefix and version: dag.finished for tradewind.dag.finished.v1.
func ShortName(typ string) string {
	return strings.TrimSuffix(strings.TrimPrefix(typ, "tradewind."), ".v1")
}

// TypeOf returns the event type with a short name. ok is false if there is none.
func TypeOf(short string) (typ string, ok bool) {
	typ = "tradewind." + short + ".v1"
	_, ok = Routes()[typ]
	return typ, ok
}

// Functions returns the names of all functions, in the order in which they occur in the life of a job.
func Functions() []string {
	return []string{
		FnSubmit, FnOptimize, FnBid, FnAdvance, FnSchedule, FnProvision,
		FnExecute, FnInterrupt, FnTick, FnRefresh, FnReconcile, FnHook,
	}
}
