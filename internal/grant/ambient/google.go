package ambient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// errGoogleAccount means that the credentials name no service account. Only an account can sign.
var errGoogleAccount = errors.New("gs:// needs a service account to sign as, and these credentials name none: " +
	"`gcloud auth application-default login --impersonate-service-account ACCOUNT` (you need the role Service " +
	"Account Token Creator on it); for workload identity federation, `gcloud iam workload-identity-pools " +
	"create-cred-config --service-account ACCOUNT`; or set GOOGLE_APPLICATION_CREDENTIALS to the key file of an " +
	"account")

// openGoogle uses Google's application default credentials, which Google's library finds and reads. They must name a
// service account, because only an account can sign: the machine's own, that of a key file, or one that is
// impersonated. Accounts without a key file sign through IAM.
func openGoogle(ctx context.Context) (grant.Store, error) {
	found, err := google.FindDefaultCredentials(ctx, googleScope)
	if err != nil {
		return nil, err
	}
	options := gcsgrant.Options{Token: found.TokenSource, Project: found.ProjectID}
	switch file, err := readGoogleFile(found.JSON); {
	case err != nil:
		return nil, err
	case len(found.JSON) == 0:
		if options.Account, err = metadata.EmailWithContext(ctx, "default"); err != nil {
			return nil, err
		}
		options.Sign = byIAM(ctx, found.TokenSource, "", options.Account)
	case file.Type == string(google.ServiceAccount):
		options.Account = file.Email
		if options.Sign, err = gcsgrant.PEM([]byte(file.Key)); err != nil {
			return nil, err
		}
	default:
		var endpoint string
		if options.Account, endpoint, err = file.impersonated(); err != nil {
			return nil, err
		}
		signer, err := file.signing(ctx, found.TokenSource)
		if err != nil {
			return nil, err
		}
		options.Sign = byIAM(ctx, signer, endpoint, options.Account)
	}
	return gcsgrant.New(options)
}

func byIAM(ctx context.Context, tokens oauth2.TokenSource, endpoint, account string) gcsgrant.Signer {
	return gcsgrant.ByIAM(oauth2.NewClient(context.WithoutCancel(ctx), tokens), endpoint, account)
}

// googleFile is the part of a credentials file that names the signer.
type googleFile struct {
	Type   string          `json:"type"`
	Email  string          `json:"client_email"`
	Key    string          `json:"private_key"`
	URL    string          `json:"service_account_impersonation_url"`
	Source json.RawMessage `json:"source_credentials"`
	Via    []string        `json:"delegates"`
}

func readGoogleFile(text []byte) (f googleFile, err error) {
	if len(text) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("gs: the credentials file: %w", err)
	}
	return f, nil
}

// impersonated returns the service account that the credentials impersonate, and the endpoint of the IAM API. Google's
// library reads the same URL: ENDPOINT/v1/projects/-/serviceAccounts/ACCOUNT:generateAccessToken.
func (f googleFile) impersonated() (account, endpoint string, err error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Host == "" {
		return "", "", errGoogleAccount
	}
	_, name, found := strings.Cut(u.Path, "/serviceAccounts/")
	account, isToken := strings.CutSuffix(name, ":generateAccessToken")
	if !found || !isToken || account == "" {
		return "", "", errGoogleAccount
	}
	return account, u.Scheme + "://" + u.Host, nil
}

// signing returns the tokens with which signBlob is called. A user or an account that impersonates another may also
// sign for it (role Service Account Token Creator). A federated identity may usually only get the account's tokens
// (role Workload Identity User), and one that goes through delegates too, so the account signs for itself.
func (f googleFile) signing(ctx context.Context, own oauth2.TokenSource) (oauth2.TokenSource, error) {
	if f.Type != string(google.ImpersonatedServiceAccount) || len(f.Via) > 0 || len(f.Source) == 0 {
		return own, nil
	}
	source, err := readGoogleFile(f.Source)
	if err != nil {
		return nil, err
	}
	found, err := google.CredentialsFromJSONWithType(context.WithoutCancel(ctx), f.Source,
		google.CredentialsType(source.Type), googleScope)
	if err != nil {
		return nil, err
	}
	return found.TokenSource, nil
}
