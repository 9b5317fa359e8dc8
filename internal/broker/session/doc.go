// Package session decides which waiting tasks are admitted, which running tasks give their machines back, and why a
// task waits. One session is one pass of pkg/scheduler over a queue and all queues that share a quota with it
// (Volcano calls this a session). pkg/placement and pkg/parsync place tasks on machines of pools.
//
// A Session reads records from a recordcache.Draft and returns its decisions through it. It uses no store, no context
// and no clock, so tests need none.
package session
