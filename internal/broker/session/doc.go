// Package session decides who is admitted, who gives machines back, and why something waits: one pass of
// pkg/scheduler over a queue and those that share a quota with it (Volcano's session; pools by pkg/placement and
// pkg/parsync).
//
// A Session reads from a book.Draft and returns what it decided through it. It imports neither store nor context nor
// clock, so that it is tried without any.
package session
