package gcpkit

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/oauth2"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

type recorded struct{ header http.Header }

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header = req.Header
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// Source: Google Cloud documentation, "Set the quota project": the project of a service account is used for its calls, but
// a user's credentials have none.
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
		options, err := credentials(t.Context(), s)
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
