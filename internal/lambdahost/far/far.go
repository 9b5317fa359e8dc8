// Package far calls other functions of the deployment. The driver of each cloud except AWS runs in a separate function,
// so that only this function contains the cloud's SDK, and the cloud trusts only this function.
package far

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// ErrFunction means that a cloud's function itself failed, because it could not start or ran out of time.
var ErrFunction = errors.New("clouds: the function failed")

// Invoker is the part of *lambda.Client that is needed.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Functions calls the functions of a deployment.
type Functions struct {
	client Invoker
	env    lambdahost.Env
}

// New makes a client of the deployment's functions.
func New(s *lambdahost.Sandbox) Functions {
	return Functions{client: lambda.NewFromConfig(s.AWS), env: s.Env}
}

// Function returns a Go function that calls a function of the deployment by its name.
func (f Functions) Function(name string) func(ctx context.Context, message []byte) ([]byte, error) {
	return Call(f.client, f.env.Function(name))
}

// Cloud returns a Go function that calls the function of a cloud.
func (f Functions) Cloud(name string) func(ctx context.Context, message []byte) ([]byte, error) {
	return f.Function("cloud-" + name)
}

// Clouds returns the clouds on which the deployment buys, other than AWS.
func (f Functions) Clouds() map[string]*remote.Client {
	clouds := map[string]*remote.Client{}
	for _, name := range f.env.Clouds {
		if name != "aws" {
			clouds[name] = remote.New(name, f.Cloud(name))
		}
	}
	return clouds
}

// Services returns the managed services that the deployment buys, by their name in the catalogue. The function of their
// cloud runs their drivers.
func (f Functions) Services() map[string]service.Service {
	services := map[string]service.Service{}
	for _, name := range f.env.Services {
		of := dag.ServiceCloud(name)
		services[name] = remote.New(of, f.Cloud(of)).Service(name)
	}
	return services
}

// Announcer returns the cloud that publishes on topics of jobs; nil if there is none.
func (f Functions) Announcer() driver.Announcer {
	if name := f.env.TopicCloud; name != "" {
		return remote.New(name, f.Cloud(name))
	}
	return nil
}

// DAGBuckets returns the buckets of other clouds whose files are jobs, by URL.
func (f Functions) DAGBuckets() map[string]driver.Files {
	files := map[string]driver.Files{}
	for name, bucket := range f.env.DAGBuckets {
		files[bucket] = remote.New(name, f.Cloud(name))
	}
	return files
}

// Call returns a Go function that calls a function on Lambda and waits for its response.
func Call(client Invoker, function string) func(ctx context.Context, message []byte) ([]byte, error) {
	return func(ctx context.Context, message []byte) ([]byte, error) {
		out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: message})
		if err != nil {
			return nil, err
		}
		if out.FunctionError != nil { // the payload may quote the request, which contains tokens
			return nil, fmt.Errorf("%w: %s: %s", ErrFunction, function, aws.ToString(out.FunctionError))
		}
		return out.Payload, nil
	}
}
