package apitypes

import "time"

// Suspension is a time for which somebody has a job, or a queue, wait.
type Suspension struct {
	By     string    `json:"by,omitempty" doc:"Who"`
	Since  time.Time `json:"since" doc:"From when"`
	Reason string    `json:"reason,omitempty" doc:"Why"`
	// Drain says of a queue that what runs of it saves its work and waits, too. Of a job it always does.
	Drain     bool      `json:"drain,omitempty" doc:"Of a queue: whether what runs saves its work and waits, too"`
	Until     time.Time `json:"until,omitzero" doc:"When it was resumed"`
	ResumedBy string    `json:"resumedBy,omitempty" doc:"Who resumed it"`
}

// Tell says since when somebody has something wait, who, and why.
func (s Suspension) Tell() string {
	text := "suspended since " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}
