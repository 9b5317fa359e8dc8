package wire

import "time"

// Service describes the service of which a node's task is a replica. All times are wall time.
type Service struct {
	Name    string `json:"name"`
	Replica int    `json:"replica"` // its number, from 0
	// Port is the port on which the replica listens if it has the machine to itself. 0 means that it does not listen:
	// it is ready as soon as it runs.
	Port int `json:"port,omitempty"`
	// Path is probed by HTTP on the machine itself; if empty, the probe is a TCP connection. Post is the body of a
	// POST.
	Path    string            `json:"path,omitempty"`
	Post    string            `json:"post,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// InitialDelay is the maximum time until the replica is ready for the first time, Every the time between two
	// probes, and Timeout the maximum time of one probe.
	InitialDelay time.Duration `json:"initialDelay"`
	Every        time.Duration `json:"every"`
	Timeout      time.Duration `json:"timeout"`
	// Patience is the time for which a replica that was ready may be unready before it is ended.
	Patience time.Duration `json:"patience"`
}

// UnreadyAfter is the number of probes in a row that must fail before a ready replica counts as unready.
const UnreadyAfter = 3
