package keys

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/awssecret"
)

// Open makes the key ring of a deployment. A function makes only one, so that it reads the parameter once.
func Open(s *lambdahost.Sandbox) *Ring { return New(ssm.NewFromConfig(s.AWS), s.Env.TokenKey, s.Now) }

// Secrets lets the broker seal and open secrets of jobs, and fetch those that are stored where the deployment may read.
// Those of other clouds are fetched by the clouds' functions.
func Secrets(s *lambdahost.Sandbox, ring *Ring, others far.Functions) *secret.Vault {
	client := ssm.NewFromConfig(s.AWS)
	sources := awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil },
		append([]string{}, s.Env.Secrets...)...)
	sources[secret.Kubernetes] = secret.Refusal("a deployment on AWS has no access to a cluster: store it in ssm: or " +
		"secretsmanager:, or give its value")
	for name, scheme := range map[string]string{"gcp": secret.GCPSM, "azure": secret.KeyVault} {
		sources[scheme] = secret.Refusal("this deployment may not read any: secrets= of deploy aws --cloud " + name +
			": sets which ones it may")
		if slices.Contains(s.Env.SecretClouds, name) {
			sources[scheme] = secret.Remote(scheme, others.Cloud(name))
		}
	}
	return &secret.Vault{Keys: ring.Keys, Sources: sources}
}
