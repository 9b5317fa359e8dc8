package ambient

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/gcsgrant"
)

const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// openGoogle takes Google's application default credentials, which have to be a service account's, for only those sign:
// with its key, or, where the account is the machine's own, by IAM.
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
			Account: email, Sign: signBlob(client, iam, email), Token: found.TokenSource,
		})
	}
	key, err := google.JWTConfigFromJSON(found.JSON, googleScope)
	if err != nil {
		return nil, errors.New("gs:// needs a service account's credentials: GOOGLE_APPLICATION_CREDENTIALS names " +
			"the file of its key")
	}
	sign, err := gcsgrant.PEM(key.PrivateKey)
	if err != nil {
		return nil, err
	}
	return gcsgrant.New(gcsgrant.Options{Account: key.Email, Sign: sign, Token: found.TokenSource})
}

const iam = "https://iamcredentials.googleapis.com"

// signBlob has IAM sign in the name of an account (IAM Service Account Credentials API,
// projects.serviceAccounts.signBlob).
func signBlob(client *http.Client, endpoint, email string) gcsgrant.SignFunc {
	target := endpoint + "/v1/projects/-/serviceAccounts/" + url.PathEscape(email) + ":signBlob"
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		body, err := json.Marshal(map[string]string{"payload": base64.StdEncoding.EncodeToString(payload)})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close() //nolint:errcheck // read
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return nil, err
		}
		var answer struct {
			SignedBlob []byte
			Error      struct{ Message string }
		}
		if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("sign as %s: %s %s", email, resp.Status, answer.Error.Message)
		}
		return answer.SignedBlob, nil
	}
}
