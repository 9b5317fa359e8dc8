package gcsgrant_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
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
	sign := gcsgrant.ByIAM(server.Client(), server.URL, "a@p").Func
	if got, err := sign(t.Context(), []byte("payload")); err != nil || string(got) != "signed payload" {
		t.Errorf("%s, %v", got, err)
	}
	status = http.StatusForbidden
	if _, err := sign(t.Context(), []byte("payload")); err == nil || !strings.Contains(err.Error(), "signBlob") {
		t.Errorf("%v", err)
	}
}

// Grants that IAM signs must last at most twelve hours. The key with which signBlob signs may be replaced after that,
// and Google would then refuse longer grants ("Signed URLs", and `gcloud storage sign-url --duration`). Grants that a
// key file signs last seven days.
func TestGrantsSignedByIAMLastTwelveHours(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string][]byte{"signedBlob": []byte("signed")})
	}))
	defer server.Close()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for want, signer := range map[time.Duration]gcsgrant.Signer{
		12 * time.Hour: gcsgrant.ByIAM(server.Client(), server.URL, "a@p"), 7 * 24 * time.Hour: gcsgrant.RSA(key),
	} {
		s, err := gcsgrant.New(gcsgrant.Options{Account: "a@p", Sign: signer, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "gs://b/k", For: 1000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(g[0].URL)
		if err != nil || g[0].Expires.Sub(now) != want ||
			u.Query().Get("X-Goog-Expires") != strconv.Itoa(int(want.Seconds())) {
			t.Errorf("it lasts %v (%s), want %v", g[0].Expires.Sub(now), u.Query().Get("X-Goog-Expires"), want)
		}
	}
}
