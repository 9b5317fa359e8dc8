package gcsgrant_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/grant/gcsgrant"
)

func TestByIAMSignsWithoutKey(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Payload []byte }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil || r.URL.Path != "/v1/projects/-/serviceAccounts/a@p:signBlob" {
			t.Errorf("%s: %s", r.URL, body)
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			_ = json.NewEncoder(w).Encode(map[string][]byte{"signedBlob": append([]byte("signed "), asked.Payload...)})
			return
		}
		_, _ = io.WriteString(w, `{"error":{"message":"no permission iam.serviceAccounts.signBlob"}}`)
	}))
	defer server.Close()
	sign := gcsgrant.ByIAM(server.Client(), server.URL, "a@p")
	if got, err := sign(t.Context(), []byte("payload")); err != nil || string(got) != "signed payload" {
		t.Errorf("%s, %v", got, err)
	}
	status = http.StatusForbidden
	if _, err := sign(t.Context(), []byte("payload")); err == nil || !strings.Contains(err.Error(), "signBlob") {
		t.Errorf("%v", err)
	}
}
