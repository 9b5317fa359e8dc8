package keys

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/awssecret"
)

type ringKey struct{}

// Of is the ring of a host, one for all of its parts: the parameter is read once.
func Of(h *lambdahost.Host) *Ring {
	return lambdahost.Shared(h, ringKey{}, func() *Ring {
		return New(ssm.NewFromConfig(h.AWS), h.Env.TokenKey, h.Ports.Now)
	})
}

// Part lets the broker make tokens for the machines that it launches.
func Part(h *lambdahost.Host) error {
	h.Ports.Tokens = Of(h).Mint
	return nil
}

// Secrets lets the broker seal and open the secrets of jobs, and fetch those that are kept where the deployment may
// read.
func Secrets(h *lambdahost.Host) error {
	client := ssm.NewFromConfig(h.AWS)
	h.Ports.Secrets = &secret.Vault{
		Keys: Of(h).Keys,
		Sources: awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil },
			append([]string{}, h.Env.Secrets...)...),
	}
	return nil
}
