package identity_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// pinned has the SHA-256 of the only roots that may be shipped. Their source is Mozilla's list of included roots
// (CCADB, "IncludedCACertificateReport").
var pinned = map[string]string{
	"DigiCert Global Root G2":                       "cb3ccbb76031e5e0138f8dd39a23f9de47ffc35e43c1144cea27d46a5ab1cb5f",
	"Microsoft RSA Root Certificate Authority 2017": "c741f70f4b2a8d88bf2e71c14122ef53ef10eba0cfa5e64cfa20f418853073e0",
}

// shipped returns the roots and the other certificates in certificates.pem, and the day on which they were checked.
func shipped(t *testing.T) (roots, between []*x509.Certificate, checked time.Time) {
	t.Helper()
	text, err := os.ReadFile("azure_certificates.pem")
	if err != nil {
		t.Fatal(err)
	}
	day := regexp.MustCompile(`(?m)^Checked: (\S+)$`).FindSubmatch(text)
	if day == nil {
		t.Fatal("certificates.pem does not say when it was checked")
	}
	if checked, err = time.Parse(time.DateOnly, string(day[1])); err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, root := pinned[cert.Subject.CommonName]; root {
			roots = append(roots, cert)
		} else {
			between = append(between, cert)
		}
	}
	return roots, between, checked
}

// Each shipped certificate must lead to a pinned root, and must not expire within 30 days of the day in the file.
// That day, not today's, counts, so the test does not begin to fail as time passes.
func TestPublishedAuthoritiesLeadToPinnedRoots(t *testing.T) {
	roots, between, checked := shipped(t)
	trusted, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range roots {
		sum := sha256.Sum256(root.Raw)
		if got := hex.EncodeToString(sum[:]); got != pinned[root.Subject.CommonName] {
			t.Errorf("%s: SHA-256 is %s", root.Subject.CommonName, got)
		}
		trusted.AddCert(root)
	}
	if len(roots) != len(pinned) {
		t.Errorf("%d roots, want %d", len(roots), len(pinned))
	}
	for _, cert := range between {
		intermediates.AddCert(cert)
	}
	for _, cert := range append(roots, between...) {
		name := cert.Subject.CommonName
		if !cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage&x509.KeyUsageCertSign == 0 {
			t.Errorf("%s is no authority", name)
		}
		_, err := cert.Verify(x509.VerifyOptions{Roots: trusted, Intermediates: intermediates,
			CurrentTime: checked.AddDate(0, 0, 30), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if err != nil {
			t.Errorf("%s, 30 days after the file was checked: %v", name, err)
		}
	}
}

// The file must have all eight authorities that sign, by "Troubleshoot IMDS certificate chain issues on Linux VMs",
// "Certificate chain architecture".
func TestPublishedAuthoritiesAreComplete(t *testing.T) {
	_, between, _ := shipped(t)
	has := map[string]bool{}
	for _, cert := range between {
		has[cert.Subject.CommonName] = true
	}
	want := []string{"Microsoft TLS RSA Root G2"}
	for _, number := range strings.Fields("02 04 06 08 10 12 14 16") {
		want = append(want, "Microsoft TLS G2 RSA CA OCSP "+number)
	}
	for _, number := range strings.Fields("03 04 07 08") {
		want = append(want, "Microsoft Azure RSA TLS Issuing CA "+number)
	}
	for _, name := range want {
		if !has[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if len(between) != len(want) {
		t.Errorf("%d authorities, want %d", len(between), len(want))
	}
}

// forge changes only the machine in a document.
func forge(t *testing.T, answer map[string]string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(answer["signature"])
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(raw, []byte("b1310a36-d400"), []byte("b1310a36-d401"), 1)
	if bytes.Equal(forged, raw) {
		t.Fatal("the document has another machine")
	}
	text, _ := json.Marshal(map[string]string{"encoding": "pkcs7", "signature": base64.StdEncoding.EncodeToString(forged)})
	return string(text)
}

// offline makes every request fail, and counts them.
type offline struct{ asked int }

func (o *offline) RoundTrip(*http.Request) (*http.Response, error) {
	o.asked++
	return nil, errors.New("no network")
}

// A real document of Azure must be verified without fetching a certificate. It is from the region eastus of 28 July
// 2026; github.com/taskcluster/taskcluster publishes it for its tests
// (services/worker-manager/test/fixtures/azure_signature_good.json).
func TestRealDocumentNeedsNoFetch(t *testing.T) {
	text, err := os.ReadFile("testdata/eastus-2026-07-28.json")
	if err != nil {
		t.Fatal(err)
	}
	const nonce = "20260728-192400"
	network := &offline{}
	verifier := func(cfg identity.AzureConfig) *identity.AzureVerifier {
		cfg.Client = &http.Client{Transport: network}
		cfg.Now = func() time.Time { return time.Date(2026, 7, 28, 13, 30, 0, 0, time.UTC) }
		v, err := identity.NewAzure(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := verifier(identity.AzureConfig{})
	want := wire.Machine{Cloud: identity.AzureName, Account: "8a205152-b25a-417f-a676-80465535a6c9",
		ID: "b1310a36-d400-46f6-82cb-6217df846586"}
	if m, err := v.Verify(t.Context(), string(text), nonce); err != nil || m != want || network.asked > 0 {
		t.Errorf("%+v, %v, %d requests", m, err, network.asked)
	}
	if _, err := v.Verify(t.Context(), string(text), "20260728-192401"); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("with another nonce: %v", err)
	}
	// A changed document must be refused, because Azure has not signed it.
	var answer map[string]string
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), forge(t, answer), nonce); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("a changed document: %v", err)
	}
	// If the broker has only the roots, it must fetch certificates.
	roots, _, _ := shipped(t)
	pool := x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	_, err = verifier(identity.AzureConfig{Roots: pool}).Verify(t.Context(), string(text), nonce)
	if !errors.Is(err, identity.ErrUnavailable) || network.asked == 0 {
		t.Errorf("without the authorities: %v, %d requests", err, network.asked)
	}
}
