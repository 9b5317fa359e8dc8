package azurekit

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// ErrAway is what an Assertion fails with where who signs it does not answer now, though nothing is wrong with the
// rights. Azure is asked again soon then, and is not left alone as one that has refused.
var ErrAway = errors.New("azure: who signs for this broker does not answer now")

// signed has tokens for an assertion. Of why there is no assertion the SDK keeps the words alone, as if Azure had said
// them: signed keeps the error.
type signed struct{ azcore.TokenCredential }

// why is the key in a context of where an assertion's error is put.
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
	if err != nil && errors.Is(failed, ErrAway) {
		return token, failed
	}
	return token, err
}
