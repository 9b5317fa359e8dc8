// Command authorizer is the Lambda function that admits requests of agents to the API.
package main

import (
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/authorizer"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
)

func main() {
	lambdahost.Start(authorizer.Name, func(s *lambdahost.Sandbox) (any, error) {
		return authorizer.New(keys.Open(s)), nil
	})
}
