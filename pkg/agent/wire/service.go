package wire

import "time"

// Service is what a node is told of the service that its task is a replica of. All times are wall time.
type Service struct {
	Name    string `json:"name"`
	Replica int    `json:"replica"` // its number, from 0
	// Port is where it listens, on a machine of its own; 0 is nowhere: it is ready when it runs.
	Port int `json:"port,omitempty"`
	// Path is asked for by HTTP, on the machine itself; empty is a TCP connection. Post is the body of a POST.
	Path    string            `json:"path,omitempty"`
	Post    string            `json:"post,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// InitialDelay is how long it may take until it is ready for the first time, Every how long it is between two
	// probes, and Timeout how long one may take.
	InitialDelay time.Duration `json:"initialDelay"`
	Every        time.Duration `json:"every"`
	Timeout      time.Duration `json:"timeout"`
	// Patience is how long it may go on without being ready, once it was: then it ends.
	Patience time.Duration `json:"patience"`
}

// UnreadyAfter is how many probes in a row have to fail for a replica that was ready not to be.
const UnreadyAfter = 3
