package gcpkit

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

type recorded struct{ header http.Header }

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header = req.Header
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

type issuing struct{ path string }

func (i *issuing) RoundTrip(r *http.Request) (*http.Response, error) {
	i.path = r.URL.Path
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"accessToken":"of the account","expireTime":"2099-01-01T00:00:00Z"}`))}, nil
}

// A store must lend tokens of the account that may access its buckets, not of the caller, who may only sign for that
// account (IAM Service Account Credentials API v1, projects.serviceAccounts.generateAccessToken).
func TestLentTokensAreThoseOfImpersonatedAccount(t *testing.T) {
	var issuer issuing
	s := cloudkit.Settings{Project: "demo", Impersonate: "data@demo.iam.gserviceaccount.com"}
	own := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "own"})
	lent, err := accountTokens(t.Context(), s, own, &http.Client{Transport: &issuer})
	if err != nil {
		t.Fatal(err)
	}
	token, err := lent.Token()
	if err != nil || token.AccessToken != "of the account" ||
		issuer.path != "/v1/projects/-/serviceAccounts/data@demo.iam.gserviceaccount.com:generateAccessToken" {
		t.Errorf("%+v from %s: %v", token, issuer.path, err)
	}
	s.Provider = "projects/1/locations/global/workloadIdentityPools/p/providers/aws-roles"
	if lent, err = accountTokens(t.Context(), s, own, nil); err != nil || lent != own {
		t.Errorf("with a provider: %v %v", lent, err)
	}
}

// A user's credentials have no project, so the broker must set the quota project. The calls of a service account use
// the account's own project. Source: Google Cloud documentation, "Set the quota project".
func TestUserCredentialsGetQuotaProject(t *testing.T) {
	for file, want := range map[string]string{
		`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`:                              "demo",
		`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","quota_project_id":"another"}`: "",
		`{"type":"external_account","audience":"a","subject_token_type":"t","token_url":"https://sts.googleapis.com/v1/token",
			"credential_source":{"file":"/x"}}`: "",
	} {
		path := filepath.Join(t.TempDir(), "credentials.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
		s := cloudkit.Settings{Project: "demo"}
		if got := quotaProject(t.Context(), s); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
		options, err := Access(t.Context(), s)
		if err != nil || (len(options) > 0) != (want != "") {
			t.Errorf("%s: %d options, %v", file, len(options), err)
		}
		var seen recorded
		c := clientOf(t.Context(), s, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "x"}))
		if charging, ok := c.Transport.(charged); ok {
			c.Transport = charged{charging.project, &seen}
			if _, err := c.Get("https://example.org"); err != nil {
				t.Fatal(err)
			}
		}
		if got := seen.header.Get("X-Goog-User-Project"); got != want {
			t.Errorf("%s: charged to %q", file, got)
		}
	}
}
