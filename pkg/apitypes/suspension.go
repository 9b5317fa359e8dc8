package apitypes

import "time"

// Suspension is a period for which a user suspended a job or a queue.
type Suspension struct {
	By     string    `json:"by,omitempty" doc:"Who suspended it"`
	Since  time.Time `json:"since" doc:"From when"`
	Reason string    `json:"reason,omitempty" doc:"Why"`
	// Drain: the running tasks of a suspended queue save their work and wait as well. For a job they always do.
	Drain     bool      `json:"drain,omitempty" doc:"For a queue: whether running tasks save their work and wait as well"`
	Until     time.Time `json:"until,omitzero" doc:"When it was resumed"`
	ResumedBy string    `json:"resumedBy,omitempty" doc:"Who resumed it"`
}

// String returns a text with the time, the user and the reason of the suspension.
func (s Suspension) String() string {
	text := "suspended since " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}
