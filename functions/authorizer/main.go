// Command authorizer is the Lambda function that admits requests of agents to the API.
package main

import (
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
)

func main() {
	lambdahost.Start(Name, func(s *lambdahost.Sandbox) (any, error) {
		return New(keys.Open(s)), nil
	})
}
