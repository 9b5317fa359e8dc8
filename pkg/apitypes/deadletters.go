package apitypes

import (
	"encoding/json"
	"time"
)

// DeadLetter is an event that the broker stopped delivering.
type DeadLetter struct {
	ID       string          `json:"id" doc:"ID of the event"`
	Type     string          `json:"type" doc:"Type of the event"`
	Group    string          `json:"group,omitempty" doc:"Job it belongs to"`
	Queue    string          `json:"queue" doc:"Function that could not handle it; empty if no function handles its type"`
	Reason   string          `json:"reason" doc:"Why delivery was given up"`
	Attempts int             `json:"attempts" doc:"Number of deliveries"`
	At       time.Time       `json:"at" doc:"When it was given up"`
	Event    json.RawMessage `json:"event,omitempty" doc:"The CloudEvents envelope, if it is JSON"`
}

// DeadLetterList is a list of dead letters.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"deadLetters" nullable:"false" doc:"The events, the oldest first"`
}

// Redrive says which events to deliver again.
type Redrive struct {
	_     struct{} `additionalProperties:"false"`
	Queue string   `json:"queue,omitempty" maxLength:"128" doc:"The function's queue; empty for all queues"`
	IDs   []string `json:"ids,omitempty" maxItems:"1000" nullable:"false" doc:"IDs of events; empty for all events of the queue"`
}

// Redriven is the answer to Redrive.
type Redriven struct {
	Redriven int `json:"redriven" doc:"Events that are delivered again"`
}
