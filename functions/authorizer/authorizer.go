package main

import (
	"context"
	"errors"
	"net/http"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
)

// Name of the function.
const Name = "authorizer"

// Verifier checks tokens of agents and of pool machines. A *keys.Ring is one.
type Verifier interface {
	Verify(text string) (wire.Claims, error)
	VerifyPool(text string) (wire.PoolClaims, error)
}

// Handler answers one request of API Gateway, which calls it with each new token of an agent and remembers the answer.
// It checks the token's signature and expiry and reads no record, so the function api still decides what a token may
// do.
type Handler func(context.Context, awsevents.APIGatewayV2CustomAuthorizerV2Request) (
	awsevents.APIGatewayV2CustomAuthorizerSimpleResponse, error)

// New makes the function's handler. It returns an error if the keys cannot be read: then API Gateway answers 500, and
// agents try again.
func New(tokens Verifier) Handler {
	return func(_ context.Context, in awsevents.APIGatewayV2CustomAuthorizerV2Request) (
		out awsevents.APIGatewayV2CustomAuthorizerSimpleResponse, err error) {
		bearer := signin.Bearer(&http.Request{Header: http.Header{"Authorization": {in.Headers["authorization"]}}})
		if _, err = tokens.Verify(bearer); err != nil {
			_, err = tokens.VerifyPool(bearer)
		}
		for _, refusal := range []error{token.ErrExpired, token.ErrForged, token.ErrMalformed} {
			if errors.Is(err, refusal) {
				return out, nil
			}
		}
		out.IsAuthorized = err == nil
		return out, err
	}
}
