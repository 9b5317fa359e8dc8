package gcpkit

import (
	"cmp"
	"context"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/restsecret"
)

// secrets returns a source of the Secret Manager secrets that the settings name; nil if they name none.
func secrets(s cloudkit.Settings) (map[string]secret.Source, error) {
	if err := secret.CheckNames(s.Secrets); err != nil || len(s.Secrets) == 0 {
		return nil, err
	}
	client := func(ctx context.Context) (*http.Client, error) {
		if cloudkit.Loopback(s.SecretStore) { // an emulator, which needs no credentials
			return http.DefaultClient, nil
		}
		known, err := tokens(ctx, s)
		if err != nil {
			return nil, err
		}
		return clientOf(ctx, s, known), nil
	}
	manager := restsecret.Google{Client: client, Endpoint: cmp.Or(s.SecretStore, restsecret.GoogleAPI)}
	return map[string]secret.Source{
		secret.GCPSM: secret.Restricted{Source: manager, Scheme: secret.GCPSM, Names: s.Secrets},
	}, nil
}
