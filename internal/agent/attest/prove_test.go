package attest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

func TestEC2MachineProvesItsIdentity(t *testing.T) {
	a, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(&imdstest.Machine{ID: "i-1", Region: "us-east-1", Account: "42", Signer: a})
	t.Cleanup(service.Close)
	proof, err := asker(t, attest.Config{Cloud: "aws", URL: service.URL + "/"})(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	v, err := identity.NewAWS(a.Certificates())
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Verify(t.Context(), proof.Document, "n")
	if want := (wire.Machine{Cloud: "aws", Account: "42", Region: "us-east-1", ID: "i-1"}); err != nil || got != want || proof.Cloud != "aws" {
		t.Errorf("%+v %+v, %v, want %+v", proof, got, err, want)
	}
}

func asker(t *testing.T, c attest.Config) attest.Func {
	t.Helper()
	c.Pause = time.Nanosecond
	f, err := attest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The requests to the metadata services of Azure and Google Cloud must be as their documentation says.
func TestProofRequests(t *testing.T) {
	for cloud, want := range map[string]string{
		"gcp":   "GET /computeMetadata/v1/instance/service-accounts/default/identity?audience=https%3A%2F%2Fbroker&format=full Google",
		"azure": "GET /metadata/attested/document?api-version=2021-02-01&nonce=" + wire.AzureNonce("NONCE") + " true",
	} {
		var asked string
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.RequestURI + " " + r.Header.Get("Metadata-Flavor") + r.Header.Get("Metadata")
			_, _ = w.Write([]byte("signed\n"))
		}))
		proof, err := asker(t, attest.Config{Cloud: cloud, URL: service.URL, Audience: "https://broker"})(t.Context(), "NONCE")
		service.Close()
		if err != nil || proof.Document != "signed" || proof.Cloud != cloud || asked != want {
			t.Errorf("%s: %+v, %v, asked %q, want %q", cloud, proof, err, asked, want)
		}
	}
}

func TestMetadataErrorsAreRetried(t *testing.T) {
	asked, redirected := 0, false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected = true }))
	t.Cleanup(elsewhere.Close)
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusFound)
		},
		func(w http.ResponseWriter) { _, _ = w.Write([]byte("signed")) },
	}
	// Count before the answer is written: a long answer reaches the caller before the handler has returned.
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		answers[(asked-1)%3](w)
	}))
	t.Cleanup(service.Close)
	f := asker(t, attest.Config{Cloud: "azure", URL: service.URL})
	if proof, err := f(t.Context(), "n"); err != nil || proof.Document != "signed" || asked != 3 || redirected {
		t.Errorf("%+v, %v after %d calls, elsewhere %v", proof, err, asked, redirected)
	}
	answers[2] = func(w http.ResponseWriter) { _, _ = w.Write([]byte(strings.Repeat("x", wire.MaxProof+1))) }
	if proof, err := f(t.Context(), "n"); err == nil || asked != 6 {
		t.Errorf("%+v after %d calls", proof, asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f(ctx, "n"); err == nil {
		t.Error("it continues although ctx has ended")
	}
}

// Azure's metadata service answers 410 for up to 70 seconds while it is updated, and 429 to more than five requests a
// second. The agent must keep trying for more than a minute, because a machine that then has no proof is refused for
// good. Source: "Azure Instance Metadata Service", "Errors and debugging"; "How to use managed identities on a VM to
// acquire a token", "Error handling".
func TestBusyMetadataServiceIsAskedForMoreThanAMinute(t *testing.T) {
	for status, want := range map[int]int{http.StatusGone: 9, http.StatusTooManyRequests: 9, http.StatusInternalServerError: 9, http.StatusBadRequest: 3} {
		asked := 0
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(status)
		}))
		if proof, err := asker(t, attest.Config{Cloud: "azure", URL: service.URL})(t.Context(), "n"); err == nil || asked != want {
			t.Errorf("%d: %+v, %v after %d requests, want %d", status, proof, err, asked, want)
		}
		service.Close()
	}
	var waited time.Duration
	for n := range 8 {
		waited += attest.PauseAfter(time.Second, n)
	}
	if waited < 70*time.Second || waited > 2*time.Minute {
		t.Errorf("gives up after %v", waited)
	}
}

func TestReadPodToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	f := asker(t, attest.Config{Cloud: "kubernetes", File: file})
	if proof, err := f(t.Context(), "n"); err == nil {
		t.Errorf("without a file: %+v", proof)
	}
	for text, good := range map[string]bool{"a.b.c\n": true, "": false, strings.Repeat("x", wire.MaxProof+1): false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		proof, err := f(t.Context(), "n")
		if good && (err != nil || *proof != wire.Proof{Cloud: "kubernetes", Document: "a.b.c"}) || !good && err == nil {
			t.Errorf("%.10q: %+v, %v", text, proof, err)
		}
	}
}

func TestUnknownCloudIsRejected(t *testing.T) {
	if _, err := attest.New(attest.Config{Cloud: "moon"}); !errors.Is(err, attest.ErrUnknown) {
		t.Error(err)
	}
}
