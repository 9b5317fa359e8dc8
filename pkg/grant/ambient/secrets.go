package ambient

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/awssecret"
)

// Secrets fetch what jobs refer to, with the same credentials.
func Secrets() map[string]secret.Source {
	return awssecret.Sources(func(ctx context.Context) (awssecret.SSM, error) {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		return ssm.NewFromConfig(cfg), nil
	})
}
