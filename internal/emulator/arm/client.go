package arm

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Options returns options for the SDK's clients to use the subscription at a URL, with one immediate retry.
func Options(url string) *sdk.ClientOptions {
	return &sdk.ClientOptions{ClientOptions: policy.ClientOptions{
		Cloud: cloud.Configuration{
			ActiveDirectoryAuthorityHost: url,
			Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
				cloud.ResourceManager: {Endpoint: url, Audience: url},
			},
		},
		InsecureAllowCredentialWithHTTP: true,
		Retry: policy.RetryOptions{
			MaxRetries:    1,
			RetryDelay:    time.Millisecond,
			MaxRetryDelay: time.Millisecond,
		},
	}}
}

// Credential returns a token; an empty one means Token.
type Credential struct {
	Token string
	Err   error // returned instead of a token
}

// GetToken implements azcore.TokenCredential.
func (c Credential) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if c.Token == "" {
		c.Token = Token
	}
	if c.Err != nil {
		return azcore.AccessToken{}, c.Err
	}
	return azcore.AccessToken{Token: c.Token, ExpiresOn: time.Now().Add(time.Hour)}, ctx.Err()
}
