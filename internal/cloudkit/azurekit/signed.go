package azurekit

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// ErrSignerUnavailable is the error of an Assertion whose signer does not answer at present, although the rights may
// be correct. The broker then retries soon. It does not pause the cloud, as it does after a refusal.
var ErrSignerUnavailable = errors.New("azure: the signer of this broker's tokens does not answer")

// signed gets tokens for an assertion. If the assertion fails, the SDK keeps only the text of its error, as if it
// came from Azure; signed returns the error itself.
type signed struct{ azcore.TokenCredential }

// why is the context key of the variable that receives an assertion's error.
type why struct{}

func newSigned(tenant, client string, assertion Assertion, o *azidentity.ClientAssertionCredentialOptions) (signed,
	error) {
	inner, err := azidentity.NewClientAssertionCredential(tenant, client, func(ctx context.Context) (string, error) {
		text, err := assertion(ctx)
		if at, ok := ctx.Value(why{}).(*error); ok {
			*at = err
		}
		return text, err
	}, o)
	return signed{inner}, err
}

// GetToken implements azcore.TokenCredential.
func (s signed) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	var failed error
	token, err := s.TokenCredential.GetToken(context.WithValue(ctx, why{}, &failed), o)
	if err != nil && errors.Is(failed, ErrSignerUnavailable) {
		return token, failed
	}
	return token, err
}
