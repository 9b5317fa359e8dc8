package dag

import (
	"errors"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Kinds of errors that a caller may want to tell from the rest with errors.Is.
var (
	// ErrCycle is in the chain of an error about tasks that wait for each other.
	ErrCycle = errors.New("dependency cycle")
	// ErrLimit is in the chain of an error about a file or a job beyond one of the limits.
	ErrLimit = fault.ErrLimit
)

// Error is what a reader or Validate found wrong: the first thing, in the order of the file as far
// as it can be told there, else in the order of the tasks. It has File, Line, Column, Field, Reason and
// Hint, each empty or 0 if it is unknown, and prints as file:line:column: field: reason (hint).
type Error = fault.Error
