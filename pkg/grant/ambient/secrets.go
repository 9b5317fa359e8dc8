package ambient

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/awssecret"
)

// Secrets fetch what jobs refer to, with the same credentials. They are looked for when something is first fetched, and
// again while there are none.
func Secrets() map[string]secret.Source {
	var mu sync.Mutex
	var client *ssm.Client
	return awssecret.Sources(func(ctx context.Context) (awssecret.SSM, error) {
		mu.Lock()
		defer mu.Unlock()
		if client == nil {
			cfg, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				return nil, err
			}
			client = ssm.NewFromConfig(cfg)
		}
		return client, nil
	})
}
