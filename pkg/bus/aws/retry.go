package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/smithy-go"
)

// A call, or the entries of it that failed, is tried so often, with doubling pauses, after the SDK's own
// retries are used up.
const (
	tries    = 8
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
)

// retry calls do until it says that it is done, it fails for good, it was tried often enough or ctx ends. An error with
// done=true is retried as well where it says that it may pass; without, the call was answered and left entries to do.
func (b *Bus) retry(ctx context.Context, do func() (done bool, err error)) error {
	pause := pauseMin
	var last error
	for try := 1; ; try++ {
		done, err := do()
		switch {
		case err == nil && done:
			return nil
		case err != nil && final(err):
			return err
		case err != nil:
			last = err
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), last)
		}
		if try == tries {
			return fmt.Errorf("gave up after %d tries: %w", tries, last)
		}
		// The pause is spread, so that those who were throttled together do not come back together.
		spread := pause/2 + time.Duration(rand.Int64N(int64(pause))) //nolint:gosec // no secret
		if err := b.clock.After(ctx, b.clock.Now().Add(spread)); err != nil {
			return errors.Join(context.Cause(ctx), last)
		}
		pause = min(2*pause, pauseMax)
	}
}

// final says that an error will be the same however often the call is made.
func final(err error) bool {
	var fin *finalError
	if errors.As(err, &fin) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false // the network's
	}
	if api.ErrorFault() == smithy.FaultServer {
		return false
	}
	return !passes(api.ErrorCode())
}

// passes says of an error code, of a call or of an entry, that it may pass.
func passes(code string) bool {
	switch code {
	case "ThrottlingException", "Throttling", "RequestThrottled", "ThrottledException", "TooManyRequestsException",
		"RequestLimitExceeded", "OverLimit", "KmsThrottled", "SlowDown",
		"InternalFailure", "InternalError", "InternalException", "InternalServerError", "ServiceUnavailable",
		"RequestTimeout", "RequestTimeoutException", "UnknownError":
		return true
	}
	return false
}

// finalError is an error that retry does not try again.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// entryError is what a service says of one entry of a batch.
type entryError struct{ code, message string }

func (e *entryError) Error() string { return e.code + ": " + e.message }
