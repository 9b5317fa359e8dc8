package clouds

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	cloudaws "github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/remote"
)

// ErrFunction says that the function of a cloud failed by itself: it could not start, or ran out of time.
var ErrFunction = errors.New("clouds: the function failed")

// Invoker is what is needed of *lambda.Client.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// far adds the clouds of the deployment other than EC2.
func far(h *lambdahost.Host, clouds map[string]cloud.Cloud) {
	for name, c := range Far(h) {
		clouds[name] = c
	}
}

// Far are the clouds of the deployment other than EC2, each with its driver in a function of its own: whoever buys
// links no SDK of theirs and has no rights there, however many they are.
func Far(h *lambdahost.Host) map[string]*remote.Client {
	clouds := map[string]*remote.Client{}
	var client Invoker
	for _, name := range h.Env.Clouds {
		if name == cloudaws.Name {
			continue
		}
		if client == nil {
			client = lambda.NewFromConfig(h.AWS)
		}
		clouds[name] = remote.New(name, invoke(client, h.Env.Function(lambdahost.CloudFunction(name))))
	}
	return clouds
}

// invoke calls a function and waits for its answer.
func invoke(client Invoker, function string) remote.Call {
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
