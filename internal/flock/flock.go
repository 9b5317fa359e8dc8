// Package flock locks open files between processes. A lock belongs to the open file: a process that inherits its
// descriptor holds the lock too, and the lock is released when all of them have ended.
package flock

// Mode says which other locks a lock allows.
type Mode int

// The modes of a lock.
const (
	Exclusive Mode = iota // no other lock
	Shared                // other shared locks
)
