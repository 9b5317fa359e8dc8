// Package far calls the functions of other clouds, each of which alone links its cloud's SDK and is trusted there.
package far

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// ErrFunction says that the function of a cloud failed by itself: it could not start, or ran out of time.
var ErrFunction = errors.New("clouds: the function failed")

// Invoker is what is needed of *lambda.Client.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Call calls a function and waits for its answer.
func Call(client Invoker, function string) func(ctx context.Context, message []byte) ([]byte, error) {
	return func(ctx context.Context, message []byte) ([]byte, error) {
		out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: message})
		if err != nil {
			return nil, err
		}
		if out.FunctionError != nil { // its payload may tell of what was asked, which has tokens in it
			return nil, fmt.Errorf("%w: %s: %s", ErrFunction, function, aws.ToString(out.FunctionError))
		}
		return out.Payload, nil
	}
}
