package identity_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// The documents of these tests contain only the certificate that signed them, like Azure's. Two authorities are
// between that certificate and a root. Source: learn.microsoft.com/troubleshoot/azure/virtual-machines/linux,
// "Troubleshoot IMDS certificate chain issues on Linux VMs" (10 July 2026), sections "Certificate chain architecture"
// and "Firewall considerations"; the same in github.com/taskcluster/taskcluster/issues/8569 and
// github.com/coder/coder/pull/25243.

// authorities simulates Azure's authorities, which serve the certificates of issuers at Microsoft's addresses.
type authorities struct {
	*testing.T
	*imdstest.AzureAuthority
	asked []string // requested URLs
	now   time.Time
}

func newAuthorities(t *testing.T) *authorities {
	t.Helper()
	a, err := imdstest.NewAzureAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return &authorities{T: t, AzureAuthority: a, now: time.Now()}
}

// RoundTrip implements http.RoundTripper.
func (a *authorities) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.String())
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result(), nil
}

func (a *authorities) verifier() *identity.AzureVerifier {
	a.Helper()
	v, err := identity.NewAzure(identity.AzureConfig{
		Roots: a.Roots(), Client: &http.Client{Transport: a}, Now: func() time.Time { return a.now },
	})
	if err != nil {
		a.Fatal(err)
	}
	return v
}

func (a *authorities) prove(m wire.Machine, nonce string) string {
	a.Helper()
	signature, err := a.Attest(&imdstest.AzureMachine{VMID: m.ID, Subscription: m.Account}, wire.AzureNonce(nonce),
		a.now)
	if err != nil {
		a.Fatal(err)
	}
	answer, _ := json.Marshal(map[string]string{"encoding": "pkcs7", "signature": signature})
	return string(answer)
}

func TestConformanceWithFetchedIssuers(t *testing.T) {
	a := newAuthorities(t)
	other := newAuthorities(t)
	testConformance(t, a.verifier(), cloud{Machine: azureMachine, Prove: a.prove,
		Forge: func(m wire.Machine, nonce string) string { return other.prove(m, nonce) }})
}

func TestIssuersAreFetchedOnce(t *testing.T) {
	a := newAuthorities(t)
	v := a.verifier()
	for range 3 {
		if m, err := v.Verify(t.Context(), a.prove(azureMachine, "n"), "n"); err != nil || m != azureMachine {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if want := "http://www.microsoft.com/pkiops/certs/"; len(a.asked) != 2 || !strings.HasPrefix(a.asked[0], want) {
		t.Errorf("fetched %v, want two from %s", a.asked, want)
	}
}

// A proof has the subscription's ID in capitals. It must equal the ID that the driver reports, which is in lower
// case.
func TestSubscriptionInCapitalsIsTheSame(t *testing.T) {
	a := newAuthorities(t)
	capitals := wire.Machine{Account: strings.ToUpper(azureMachine.Account), ID: strings.ToUpper(azureMachine.ID)}
	if m, err := a.verifier().Verify(t.Context(), a.prove(capitals, "n"), "n"); err != nil || m != azureMachine {
		t.Errorf("%+v, %v, want %+v", m, err, azureMachine)
	}
}

// A certificate cannot be fetched. The machine must be asked to try again, because this is not its fault.
func TestFailedFetchIsUnavailable(t *testing.T) {
	a := newAuthorities(t)
	v := a.verifier()
	a.Down(true)
	for range 3 {
		_, err := v.Verify(t.Context(), a.prove(azureMachine, "n"), "n")
		if !errors.Is(err, identity.ErrUnavailable) || !strings.Contains(err.Error(), "www.microsoft.com") {
			t.Fatal(err)
		}
	}
	if a.Fetched() != 1 {
		t.Errorf("%d requests for three proofs in one moment", a.Fetched())
	}
	a.Down(false)
	a.now = a.now.Add(time.Minute)
	if m, err := v.Verify(t.Context(), a.prove(azureMachine, "n"), "n"); err != nil || m != azureMachine {
		t.Errorf("%+v, %v", m, err)
	}
}

// Anyone can write an address into a certificate. So certificates may only be fetched from the addresses of Azure's
// authorities.
func TestOtherHostsAreNotFetched(t *testing.T) {
	for _, at := range []string{
		"http://169.254.169.254/latest", "http://127.0.0.1:8080/pkiops/certs", "http://www.microsoft.com:8080/pkiops/certs",
		"ftp://www.microsoft.com/pkiops/certs", "http://user@www.microsoft.com/pkiops/certs", "http://www.microsoft.com.example.com/x",
	} {
		a := newAuthorities(t)
		a.Issuers = at
		_, err := a.verifier().Verify(t.Context(), a.prove(azureMachine, "n"), "n")
		if !errors.Is(err, identity.ErrInvalid) || len(a.asked) > 0 {
			t.Errorf("%s: %v, fetched %v", at, err, a.asked)
		}
	}
}

// A broker cannot reach Microsoft's hosts. It must be possible to give it the certificates.
func TestLocalCertificatesNeedNoFetch(t *testing.T) {
	a := newAuthorities(t)
	a.prove(azureMachine, "n") // issues the certificates
	all := a.Certificates()
	for _, file := range []string{"cross.crt", "issuing.crt"} {
		res, err := a.RoundTrip(httptest.NewRequest(http.MethodGet, "/"+file, http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(res.Body)
		all += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	}
	a.asked = nil
	cfg, err := identity.LocalAzure([]byte(all))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Client = &http.Client{Transport: a}
	v, err := identity.NewAzure(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := v.Verify(t.Context(), a.prove(azureMachine, "n"), "n"); err != nil || m != azureMachine ||
		len(a.asked) > 0 {
		t.Errorf("%+v, %v, fetched %v", m, err, a.asked)
	}
	if _, err := identity.LocalAzure([]byte("nothing")); err == nil {
		t.Error("certificates without a root are accepted")
	}
}

// The nonce must have ten digits: "Azure Instance Metadata Service", "Attested data": nonce is an optional 10-digit
// string.
func TestNonceIsTenDigits(t *testing.T) {
	if n := wire.AzureNonce("NONCE7"); !regexp.MustCompile(`^[0-9]{10}$`).MatchString(n) || n == wire.AzureNonce("NONCE8") {
		t.Error(n)
	}
}
