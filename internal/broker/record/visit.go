package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Visit is the record of a user's visit to a machine on which a task runs: the fact and the time. It contains none of
// the visit's data.
type Visit struct {
	Number  int       `json:"number"` // number in the attempt, from 1
	Task    int       `json:"task"`   // index
	Attempt int       `json:"attempt"`
	Rank    int       `json:"rank"`
	Kind    string    `json:"kind"`           // exec, shell or forward
	What    string    `json:"what,omitempty"` // the command line, masked
	Port    int       `json:"port,omitempty"` // of a forward
	Opened  time.Time `json:"opened"`
	Ended   time.Time `json:"ended,omitzero"`
	Exit    *int      `json:"exit,omitempty"`   // the command's exit code
	Reason  string    `json:"reason,omitempty"` // reason of an end without an exit code
}

// Limits of visits.
const (
	MaxVisits     = 200 // maximum number in an attempt
	MaxOpenVisits = 8   // maximum number at the same time in an attempt
	MaxVisitText  = 500 // maximum number of bytes that are kept of a command line or a reason
)

// ErrVisit states for users why a machine cannot be visited.
var ErrVisit = errors.New("the machine cannot be visited")

// VisitPrefix is the prefix of the sort keys of a cluster's visits.
func VisitPrefix(task, attempt int) string { return fmt.Sprintf("visit#%06d#%04d#", task, attempt) }

// VisitKey is the key of a Visit.
func VisitKey(job string, task, attempt, number int) store.Key {
	return store.Key{Partition: JobPart(job), Sort: fmt.Sprintf("%s%06d", VisitPrefix(task, attempt), number)}
}
