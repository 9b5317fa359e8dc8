package record

import (
	"errors"
	"fmt"
)

// OrSkip returns err. If err is nil, it returns ErrSkip: the record to which an event refers is gone.
func OrSkip(err error) error {
	if err != nil {
		return err
	}
	return ErrSkip
}

// ErrGone means that the attempt of an agent has ended: the agent stops its task and exits.
var ErrGone = errors.New("broker: the attempt has ended")

// ErrMachine means that the caller of hello is not the launched machine, or has not proven it.
var ErrMachine = errors.New("the caller is not proven to be the launched machine")

// ErrEarly means that a machine calls before its launch is recorded. It should call again.
var ErrEarly = errors.New("the launch of this machine is not recorded yet")

// ErrFinal marks an error that a retry cannot fix. The event becomes a dead letter.
var ErrFinal = errors.New("final")

// Final wraps err so that its event is not retried.
func Final(err error) error { return fmt.Errorf("%w: %w", ErrFinal, err) }

// NotFound returns err. If err is nil, it returns ErrNotFound with the name of the missing thing.
func NotFound(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", what, ErrNotFound)
}

// ErrNotFound means that a record does not exist.
var ErrNotFound = errors.New("not found")

// ErrFinished means that a job has already finished.
var ErrFinished = errors.New("the job has finished")

// ErrUnfinished means that a job has not finished, so it cannot be removed or rerun in part. ErrNoFailure means that
// none of its tasks has to run again.
var (
	ErrUnfinished = errors.New("has not finished")
	ErrNoFailure  = errors.New("has no task that failed or never ran")
)

// ErrSkip ends a unit without a commit: there was nothing to do.
var ErrSkip = errors.New("broker: nothing to do")
