package keys

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/awssecret"
	"github.com/tradewind-broker/tradewind/pkg/secret/remote"
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
// read; those of other clouds their functions fetch.
func Secrets(h *lambdahost.Host) error {
	client := ssm.NewFromConfig(h.AWS)
	sources := awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil },
		append([]string{}, h.Env.Secrets...)...)
	sources[secret.Kubernetes] = secret.Refusal("a deployment on AWS has no rights in a cluster: keep it in ssm: or " +
		"secretsmanager:, or give its value")
	for name, scheme := range map[string]string{"gcp": secret.GCPSM, "azure": secret.KeyVault} {
		sources[scheme] = secret.Refusal("this deployment reads none: secrets= of deploy aws --cloud " + name +
			": says which it may")
		if slices.Contains(h.Env.SecretClouds, name) {
			call := far.Call(lambda.NewFromConfig(h.AWS), h.Env.Function(lambdahost.CloudFunction(name)))
			sources[scheme] = remote.New(scheme, call)
		}
	}
	h.Ports.Secrets = &secret.Vault{Keys: Of(h).Keys, Sources: sources}
	return nil
}
