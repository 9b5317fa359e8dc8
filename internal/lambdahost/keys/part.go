package keys

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/awssecret"
)

// Part lets the broker make tokens for the machines that it launches.
func Part(h *lambdahost.Host) error {
	h.Ports.Tokens = New(ssm.NewFromConfig(h.AWS), h.Env.TokenKey, h.Ports.Now).Mint
	return nil
}

// Secrets lets the broker seal and open the secrets of jobs, and fetch those that are kept where the deployment may
// read.
func Secrets(h *lambdahost.Host) error {
	client := ssm.NewFromConfig(h.AWS)
	h.Ports.Secrets = &secret.Vault{
		Keys: New(client, h.Env.TokenKey, h.Ports.Now).Keys,
		Sources: awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil },
			append([]string{}, h.Env.Secrets...)...),
	}
	return nil
}
