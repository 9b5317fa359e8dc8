package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/smithy-go"
)

// The number of tries of a call, or of the failed entries of a batch call, with doubling pauses, after the SDK's own
// retries are used up.
const (
	tries    = 8
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
)

// retry calls do until it is done, fails permanently, was tried tries times, or ctx ends. do is done if it returns
// done without an error. After a temporary error, it is called again, whether or not done is set. Without an error
// and with done=false, the call was answered, but some entries are still to do.
func (b *Bus) retry(ctx context.Context, do func() (done bool, err error)) error {
	pause := pauseMin
	var last error
	for try := 1; ; try++ {
		done, err := do()
		switch {
		case err == nil && done:
			return nil
		case err != nil && permanent(err):
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
		// The pause is random. Otherwise callers that were throttled together would all retry together.
		spread := pause/2 + time.Duration(rand.Int64N(int64(pause))) //nolint:gosec // not security-relevant
		if err := b.clock.After(ctx, b.clock.Now().Add(spread)); err != nil {
			return errors.Join(context.Cause(ctx), last)
		}
		pause = min(2*pause, pauseMax)
	}
}

// permanent reports whether an error is permanent, so that a retry is useless.
func permanent(err error) bool {
	var fin *finalError
	if errors.As(err, &fin) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false // a network error
	}
	if api.ErrorFault() == smithy.FaultServer {
		return false
	}
	return !temporary(api.ErrorCode())
}

// temporary reports whether an error code, of a call or of an entry, is temporary.
func temporary(code string) bool {
	switch code {
	case "ThrottlingException", "Throttling", "RequestThrottled", "ThrottledException", "TooManyRequestsException",
		"RequestLimitExceeded", "OverLimit", "KmsThrottled", "SlowDown",
		"InternalFailure", "InternalError", "InternalException", "InternalServerError", "ServiceUnavailable",
		"RequestTimeout", "RequestTimeoutException", "UnknownError":
		return true
	}
	return false
}

// finalError is an error that retry does not retry.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// entryError is a service's error for one entry of a batch.
type entryError struct{ code, message string }

func (e *entryError) Error() string { return e.code + ": " + e.message }
