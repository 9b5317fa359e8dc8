// Package flock locks open files between processes. A lock belongs to the open file: who inherits its descriptor holds
// the lock too, and what a process that dies had is free.
package flock

// Mode is who may hold a lock beside one.
type Mode int

// The modes of a lock.
const (
	Exclusive Mode = iota // nobody
	Shared                // others that share it
)
