package dag

import (
	"errors"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Kinds of errors that a caller can detect with errors.Is.
var (
	// ErrCycle is wrapped by an error about tasks that wait for each other.
	ErrCycle = errors.New("dependency cycle")
	// ErrLimit is wrapped by an error about a file or a job that exceeds a limit.
	ErrLimit = fault.ErrLimit
)

// Error is the first fault of a file or a job, in the order of the file if it is known, or else in the order of the
// tasks. It has File, Line, Column, Field, Reason and Hint, each empty or 0 if unknown, and prints as
// file:line:column: field: reason (hint). Also has the further faults, each printed on its own line.
type Error = fault.Error
