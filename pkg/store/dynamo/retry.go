package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

const (
	backoffFirst = 20 * time.Millisecond
	backoffMost  = 2 * time.Second
)

// newRetryer is the SDK's standard one with a delay that suits a database of milliseconds: the
// SDK's own starts at a second. A function that waits is paid for. The bucket that stops a process from
// retrying too much is left out: functions share nothing anyway, and how often is bounded.
func newRetryer(attempts int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return backoff(attempt), nil
		})
		o.RateLimiter = noLimit{}
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			// Another transaction is writing the item of a single write this moment.
			"TransactionConflictException": {},
		}})
	})
}

type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }

// backoff is a random part of a time that doubles ("full jitter"), so that those who collided do not
// come back together.
func backoff(attempt int) time.Duration {
	most := min(backoffMost, backoffFirst<<min(max(attempt, 0), 10))
	return time.Duration(rand.Int64N(int64(most))) //nolint:gosec // only spreads requests
}

// pause waits before the attempt-th try, unless that was the last; it reports whether to go on.
func (s *Store) pause(ctx context.Context, attempt int) (bool, error) {
	if attempt >= s.retryer.MaxAttempts() {
		return false, nil
	}
	err := clock.Pause(ctx, backoff(attempt))
	return err == nil, err
}

// attempts watches what becomes of each attempt of one request.
type attempts struct {
	unsure bool // one that failed may have been applied all the same
}

// watch is an option of a call, which fills a.
func (a *attempts) watch(o *dynamodb.Options) {
	each := middleware.FinalizeMiddlewareFunc("TradewindAttempts",
		func(ctx context.Context, in middleware.FinalizeInput,
			next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleFinalize(ctx, in)
			if err != nil && !refused(err) {
				a.unsure = true
			}
			return out, metadata, err
		})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(each, "Retry", middleware.After)
	})
}

// refused says that err is the database's word that it did nothing: an answer that blames the request.
func refused(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 &&
		answer.HTTPStatusCode() < http.StatusInternalServerError
}

// throttleCodes are the SDK's, without the one that says our own request is still under way, and those
// that stand in the reasons of a cancelled transaction.
func throttleCode(code string) bool {
	if code == "TransactionInProgressException" {
		return false
	}
	_, ok := retry.DefaultThrottleErrorCodes[code]
	return ok || slices.Contains([]string{"ThrottlingError", "ProvisionedThroughputExceeded"}, code)
}

// failed puts an error of the SDK into the store's words.
func failed(ctx context.Context, what string, err error) error {
	var api smithy.APIError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("dynamo: %s: %w", what, ctx.Err())
	case errors.As(err, &api) && throttleCode(api.ErrorCode()):
		return fmt.Errorf("dynamo: %s: %w: %w", what, store.ErrThrottled, err)
	case errors.As(err, &api) && api.ErrorCode() == "ItemCollectionSizeLimitExceededException":
		return fmt.Errorf("dynamo: %s: %w: %w", what, store.ErrTooLarge, err)
	}
	return fmt.Errorf("dynamo: %s: %w", what, err)
}
