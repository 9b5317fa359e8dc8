package ambient

import (
	"context"
	"errors"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/gcsgrant"
)

const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// openGoogle uses Google's application default credentials. They must be a service account's, because only those can
// sign: with the account's key or, if the account is the machine's own, through IAM.
func openGoogle(ctx context.Context) (grant.Store, error) {
	found, err := google.FindDefaultCredentials(ctx, googleScope)
	if err != nil {
		return nil, err
	}
	if len(found.JSON) == 0 {
		email, err := metadata.EmailWithContext(ctx, "default")
		if err != nil {
			return nil, err
		}
		client := oauth2.NewClient(context.WithoutCancel(ctx), found.TokenSource)
		return gcsgrant.New(gcsgrant.Options{
			Account: email, Sign: gcsgrant.ByIAM(client, "", email), Token: found.TokenSource,
			Project: found.ProjectID,
		})
	}
	key, err := google.JWTConfigFromJSON(found.JSON, googleScope)
	if err != nil {
		return nil, errors.New("gs:// needs a service account's credentials: set GOOGLE_APPLICATION_CREDENTIALS to " +
			"the file of its key")
	}
	sign, err := gcsgrant.PEM(key.PrivateKey)
	if err != nil {
		return nil, err
	}
	return gcsgrant.New(gcsgrant.Options{Account: key.Email, Sign: sign, Token: found.TokenSource,
		Project: found.ProjectID})
}
