package far_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// invoker responds like a function of Lambda.
type invoker func(function string, payload []byte) (*lambda.InvokeOutput, error)

func (f invoker) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	return f(aws.ToString(in.FunctionName), in.Payload)
}

func TestCloudCallsItsFunction(t *testing.T) {
	called := ""
	c := remote.New("gcp", far.Call(invoker(func(function string, payload []byte) (*lambda.InvokeOutput, error) {
		called = function + " " + string(payload)
		return &lambda.InvokeOutput{Payload: []byte(`{"machines":[{"ID":"7"}]}`)}, nil
	}), "tradewind-cloud-gcp"))
	if got, err := c.Machines(t.Context(), "a"); err != nil || len(got) != 1 || got[0].ID != "7" {
		t.Errorf("%v, %v", got, err)
	}
	if !strings.HasPrefix(called, "tradewind-cloud-gcp {") {
		t.Errorf("called %s", called)
	}
}

// However a function fails, the caller may retry, and the error contains no token of the request.
func TestFunctionErrorIsTransient(t *testing.T) {
	for name, answer := range map[string]invoker{
		"crashed": func(string, []byte) (*lambda.InvokeOutput, error) {
			return &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte("secret-token")}, nil
		},
		"throttled": func(string, []byte) (*lambda.InvokeOutput, error) { return nil, errors.New("TooManyRequestsException") },
	} {
		err := remote.New("gcp", far.Call(answer, "f")).Terminate(t.Context(), "a")
		if cloud.KindOf(err) != cloud.Transient || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
