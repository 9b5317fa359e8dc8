package clouds

import (
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	cloudaws "github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/remote"
)

// addFar adds the clouds of the deployment other than EC2.
func addFar(h *lambdahost.Host, clouds map[string]cloud.Cloud) {
	for name, c := range Far(h) {
		clouds[name] = c
	}
}

// Far are the clouds of the deployment other than EC2, each with its driver in a function of its own: whoever buys
// links no SDK of theirs and has no rights there, however many they are.
func Far(h *lambdahost.Host) map[string]*remote.Client {
	clouds := map[string]*remote.Client{}
	var client far.Invoker
	for _, name := range h.Env.Clouds {
		if name == cloudaws.Name {
			continue
		}
		if client == nil {
			client = lambda.NewFromConfig(h.AWS)
		}
		clouds[name] = remote.New(name, far.Call(client, h.Env.Function(lambdahost.CloudFunction(name))))
	}
	return clouds
}
