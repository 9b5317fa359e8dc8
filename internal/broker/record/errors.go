package record

import (
	"errors"
	"fmt"
)

// OrSkip is err, or errSkip when there is none: the record that an event concerns is gone.
func OrSkip(err error) error {
	if err != nil {
		return err
	}
	return ErrSkip
}

// ErrGone says that the attempt an agent speaks for is over: it stops its task and exits.
var ErrGone = errors.New("broker: the attempt is over")

// ErrMachine says that whoever says hello is not the machine that was launched, or does not prove it.
var ErrMachine = errors.New("this is not known to be the machine that was launched")

// ErrEarly says that a machine speaks before it is recorded that it was launched: it is to come again.
var ErrEarly = errors.New("the launch of this machine is not recorded yet")

// ErrFinal marks an error that trying again cannot mend: the event goes to the dead letters.
var ErrFinal = errors.New("final")

// Final wraps err so that its event is not tried again.
func Final(err error) error { return fmt.Errorf("%w: %w", ErrFinal, err) }

// NotFound is err, or ErrNotFound of what where there is none.
func NotFound(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", what, ErrNotFound)
}

// ErrNotFound says that a record does not exist.
var ErrNotFound = errors.New("not found")

// ErrOver says that a job is over already.
var ErrOver = errors.New("the job is over")

// ErrSkip ends a unit without a commit: there was nothing to do.
var ErrSkip = errors.New("broker: nothing to do")
