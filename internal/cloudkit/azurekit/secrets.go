package azurekit

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/restsecret"
)

// secrets returns a source of the Key Vault secrets that the settings name; nil if they name none.
func secrets(s cloudkit.Settings, credential azcore.TokenCredential) (map[string]secret.Source, error) {
	if err := secret.CheckNames(s.Secrets); err != nil || len(s.Secrets) == 0 {
		return nil, err
	}
	client := &http.Client{Transport: bearer{credential}}
	vault := restsecret.KeyVault{Client: func(context.Context) (*http.Client, error) { return client, nil }}
	if s.SecretStore != "" {
		vault.Endpoint = func(name string) string { return s.SecretStore + "/" + name }
	}
	return map[string]secret.Source{
		secret.KeyVault: secret.Restricted{Source: vault, Scheme: secret.KeyVault, Names: s.Secrets},
	}, nil
}

// bearer authorises requests to Key Vault with an Azure token, which the credential caches while it is valid.
type bearer struct{ credential azcore.TokenCredential }

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	scopes := policy.TokenRequestOptions{Scopes: []string{restsecret.KeyVaultScope}}
	token, err := b.credential.GetToken(r.Context(), scopes)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token.Token)
	return http.DefaultTransport.RoundTrip(r)
}
