package ambient

import (
	"context"
	"net/http"
	"sync"

	"github.com/aws/smithy-go/logging"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/awssecret"
	"github.com/tradewind-broker/tradewind/internal/secret/restsecret"
)

// Secrets returns the sources of the secrets that jobs refer to, with the same credentials. Credentials are looked up
// at the first fetch, and again as long as none are found.
func Secrets() map[string]secret.Source {
	parameters := once(func(ctx context.Context) (awssecret.SSM, error) {
		cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
		if err != nil {
			return nil, err
		}
		return ssm.NewFromConfig(cfg), nil
	})
	sources := awssecret.Sources(parameters)
	sources[secret.GCPSM] = restsecret.Google{Client: once(googleClient), Endpoint: restsecret.GoogleAPI}
	sources[secret.KeyVault] = restsecret.KeyVault{Client: once(azureClient)}
	sources[secret.Kubernetes] = restsecret.Kubernetes{Cluster: cluster}
	return sources
}

// once returns a function that keeps the first client that open returns without error.
func once[C any](open func(context.Context) (C, error)) func(context.Context) (C, error) {
	var mu sync.Mutex
	var client C
	var has bool
	return func(ctx context.Context) (C, error) {
		mu.Lock()
		defer mu.Unlock()
		if has {
			return client, nil
		}
		c, err := open(ctx)
		if err == nil {
			client, has = c, true
		}
		return c, err
	}
}

// The clients outlive the call that creates them, hence context.WithoutCancel.

func googleClient(ctx context.Context) (*http.Client, error) {
	tokens, err := google.DefaultTokenSource(context.WithoutCancel(ctx), googleScope)
	if err != nil {
		return nil, err
	}
	return oauth2.NewClient(context.WithoutCancel(ctx), tokens), nil
}

func azureClient(ctx context.Context) (*http.Client, error) {
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return oauth2.NewClient(context.WithoutCancel(ctx), vaultTokens{context.WithoutCancel(ctx), identity}), nil
}

// vaultTokens provides Azure tokens for Key Vault; the credential caches a token as long as it is valid.
type vaultTokens struct {
	ctx      context.Context //nolint:containedctx // oauth2.TokenSource has none
	identity azcore.TokenCredential
}

// Token implements oauth2.TokenSource.
func (v vaultTokens) Token() (*oauth2.Token, error) {
	t, err := v.identity.GetToken(v.ctx, policy.TokenRequestOptions{Scopes: []string{restsecret.KeyVaultScope}})
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: t.Token, TokenType: "Bearer", Expiry: t.ExpiresOn}, nil
}

// cluster returns the cluster of the kubeconfig's current context, read again each time because users change it, or the
// cluster in which this process runs. In a pod, secrets are read with the broker's rights, not with a user's.
func cluster(context.Context) (endpoint string, client *http.Client, labelled bool, err error) {
	a, err := kubeapi.Open("")
	if err != nil {
		return "", nil, false, err
	}
	endpoint, client = a.HTTP()
	return endpoint, client, a.Context == "", nil
}
