package files

// Mode specifies which other locks a lock allows.
type Mode int

// The modes of a lock.
const (
	Exclusive Mode = iota // no other lock
	Shared                // other shared locks
)
