package ambient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// federation simulates Google's token service, IAM and OAuth. Each returns a token that contains the name of its
// owner.
func federation(t *testing.T, calls *[]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*calls = append(*calls, r.URL.Path+" by "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch {
		case r.URL.Path == "/sts":
			answer = map[string]any{"access_token": "federated", "token_type": "Bearer", "expires_in": 3600,
				"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
		case r.URL.Path == "/oauth":
			answer = map[string]any{"access_token": "ada", "token_type": "Bearer", "expires_in": 3600}
		case strings.HasSuffix(r.URL.Path, ":generateAccessToken"):
			answer = map[string]any{"accessToken": "work", "expireTime": time.Now().Add(time.Hour).Format(time.RFC3339)}
		case strings.HasSuffix(r.URL.Path, ":signBlob"):
			answer = map[string][]byte{"signedBlob": []byte("signed")}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Signing must work without a key file, because organisations forbid key files by default (organization policy
// iam.managed.disableServiceAccountKeyCreation). The credentials may be those of a user who impersonates an account,
// or of workload identity federation. Sources: IAM documentation, "Use service account impersonation", "Workload
// Identity Federation"; signBlob and generateAccessToken: IAM Service Account Credentials API v1.
func TestGoogleSignsWithoutKeyFile(t *testing.T) {
	var calls []string
	at := federation(t, &calls)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("oidc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const account = "work@demo.iam.gserviceaccount.com"
	impersonate := fmt.Sprintf(`"service_account_impersonation_url":"%s/v1/projects/-/serviceAccounts/%s:generateAccessToken"`, at, account)
	user := `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`
	external := fmt.Sprintf(`{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p",
"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"%s/sts","credential_source":{"file":"%s"}`, at, token)
	for name, c := range map[string]struct{ file, by, fails string }{
		// A federated identity stands for the user here, because Google's library gets a user's token only from
		// Google's own address.
		"a user who impersonates an account": {fmt.Sprintf(`{"type":"impersonated_service_account",%s,"delegates":[],"source_credentials":%s}`,
			impersonate, external+"}"), "federated", ""},
		"federation with an account":    {external + "," + impersonate + "}", "work", ""},
		"federation without an account": {external + "}", "", "--impersonate-service-account"},
		"a user":                        {user, "", "--impersonate-service-account"},
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			file := filepath.Join(t.TempDir(), "credentials.json")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			s, err := openGoogle(t.Context())
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			grants, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "gs://bucket/key", For: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(grants[0].URL, strings.ReplaceAll(account, "@", "%40")) {
				t.Errorf("signed as %s", grants[0].URL)
			}
			want := "/v1/projects/-/serviceAccounts/" + account + ":signBlob by " + c.by
			if last := calls[len(calls)-1]; last != want {
				t.Errorf("calls %q, want %q", calls, want)
			}
		})
	}
}
