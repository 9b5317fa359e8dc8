package azurekit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/secret"
)

// Only secrets that the settings name may be fetched. The caller's own identity is used.
func TestSecretsOfSettings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+nobody || r.URL.Path != "/team/secrets/hf" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"value":"hunter2"}`))
	}))
	t.Cleanup(server.Close)
	got, err := secrets(cloudkit.Settings{Secrets: []string{"team/hf"}, SecretStore: server.URL}, emulated{})
	if err != nil {
		t.Fatal(err)
	}
	if value, err := got[secret.KeyVault].Fetch(t.Context(), "team/hf"); err != nil || value != "hunter2" {
		t.Errorf("%q, %v", value, err)
	}
	if _, err := got[secret.KeyVault].Fetch(t.Context(), "team/own"); err == nil {
		t.Error("a secret outside the settings was fetched")
	}
	if none, err := secrets(cloudkit.Settings{}, emulated{}); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}
