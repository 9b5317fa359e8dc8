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

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

const (
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// newRetryer returns the SDK's standard retryer with shorter delays: the SDK's start at a second, the database
// answers in milliseconds, and a waiting function is billed. The SDK's rate limit on retries is off, because
// functions share no state and the number of attempts is bounded.
func newRetryer(attempts int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return backoff(attempt), nil
		})
		o.RateLimiter = noLimit{}
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			// Another transaction is writing the same item at this moment.
			"TransactionConflictException": {},
		}})
	})
}

type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }

// backoff returns a random part of a duration that doubles with each attempt ("full jitter"), so that
// requests that collided do not collide again.
func backoff(attempt int) time.Duration {
	most := min(maxBackoff, firstBackoff<<min(max(attempt, 0), 10))
	return time.Duration(rand.Int64N(int64(most))) //nolint:gosec // only spreads requests
}

// pause waits before the next attempt, unless attempt was the last. It returns whether to try again.
func (s *Store) pause(ctx context.Context, attempt int) (bool, error) {
	if attempt >= s.retryer.MaxAttempts() {
		return false, nil
	}
	err := clock.Pause(ctx, backoff(attempt))
	return err == nil, err
}

// attempts records the outcomes of the attempts of one request.
type attempts struct {
	unsure bool // a failed attempt may have been applied
}

// watch is a call option that fills a.
func (a *attempts) watch(o *dynamodb.Options) {
	each := middleware.FinalizeMiddlewareFunc("TradewindAttempts",
		func(ctx context.Context, in middleware.FinalizeInput,
			next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleFinalize(ctx, in)
			if err != nil && !isClientError(err) {
				a.unsure = true
			}
			return out, metadata, err
		})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(each, "Retry", middleware.After)
	})
}

// isClientError reports whether err means that the database did nothing: an HTTP 4xx answer.
func isClientError(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 &&
		answer.HTTPStatusCode() < http.StatusInternalServerError
}

// throttleCode recognises the SDK's throttling codes, also in the reasons of a cancelled transaction. It does not
// recognise TransactionInProgressException, which means that our own request is still in progress.
func throttleCode(code string) bool {
	if code == "TransactionInProgressException" {
		return false
	}
	_, ok := retry.DefaultThrottleErrorCodes[code]
	return ok || slices.Contains([]string{"ThrottlingError", "ProvisionedThroughputExceeded"}, code)
}

// wrapError converts an SDK error to the store's errors.
func wrapError(ctx context.Context, what string, err error) error {
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
