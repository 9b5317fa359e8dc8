package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/smallstep/pkcs7"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// issuer is a certificate authority, and a certificate that it issued.
type issuer struct {
	testing.TB
	root, leaf *x509.Certificate
	key        *rsa.PrivateKey
}

// now is the real time, because the signing library adds the real time to its documents.
var now = time.Now().UTC().Truncate(time.Second)

func newIssuer(t testing.TB, name string) *issuer {
	t.Helper()
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(template, parent *x509.Certificate, public any) *x509.Certificate {
		template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(100*time.Hour)
		template.BasicConstraintsValid = true
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, rootKey)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Root"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	i := &issuer{TB: t, root: certificate(root, root, &rootKey.PublicKey), key: key}
	i.leaf = certificate(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, i.root, &key.PublicKey)
	return i
}

// prove returns a function that answers like the metadata service. Its documents were created at the given time.
func (i *issuer) prove(at time.Time) func(wire.Machine, string) string {
	return func(m wire.Machine, nonce string) string {
		i.Helper()
		const form = "01/02/06 15:04:05 -0700"
		doc, _ := json.Marshal(map[string]any{"nonce": nonce, "vmId": m.ID, "subscriptionId": m.Account, "sku": "x", "timeStamp": map[string]string{
			"createdOn": at.Format(form), "expiresOn": at.Add(6 * time.Hour).Format(form),
		}})
		message, err := pkcs7.NewSignedData(doc)
		if err != nil {
			i.Fatal(err)
		}
		message.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
		if err := message.AddSigner(i.leaf, i.key, pkcs7.SignerInfoConfig{}); err != nil {
			i.Fatal(err)
		}
		raw, err := message.Finish()
		if err != nil {
			i.Fatal(err)
		}
		answer, _ := json.Marshal(map[string]string{"encoding": "pkcs7", "signature": base64.StdEncoding.EncodeToString(raw)})
		return string(answer)
	}
}

func (i *issuer) verifier() *identity.AzureVerifier {
	i.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(i.root)
	v, err := identity.NewAzure(identity.AzureConfig{Roots: roots, Now: func() time.Time { return now }})
	if err != nil {
		i.Fatal(err)
	}
	return v
}

var azureMachine = wire.Machine{Cloud: "azure", Account: "8d10da13-8125-4ba9-a717-bf7490507b3d",
	ID: "02aab8a4-74ef-476e-8182-f6d2ba4166a6"}

func TestAzureConformance(t *testing.T) {
	i := newIssuer(t, "eastus.metadata.azure.com")
	testConformance(t, i.verifier(), cloud{
		Machine: azureMachine, Prove: i.prove(now), Forge: newIssuer(t, "metadata.azure.com").prove(now), Nonced: true,
	})
}

func TestVerifyRejectsOtherSigners(t *testing.T) {
	for _, name := range []string{"example.com", "metadata.azure.com.example.com", "notmetadata.azure.com"} {
		i := newIssuer(t, name)
		if _, err := i.verifier().Verify(t.Context(), i.prove(now)(azureMachine, "n"), "n"); !errors.Is(err,
			identity.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerifyChecksDocumentTimes(t *testing.T) {
	i := newIssuer(t, "metadata.azure.com")
	for at, good := range map[time.Duration]bool{-7 * time.Hour: false, -5 * time.Hour: true, 0: true, 2 * time.Minute: false} {
		if _, err := i.verifier().Verify(t.Context(), i.prove(now.Add(at))(azureMachine, "n"),
			"n"); (err == nil) != good {
			t.Errorf("created at %v: %v", at, err)
		}
	}
}

func FuzzAzureVerify(f *testing.F) {
	v := newIssuer(f, "metadata.azure.com").verifier()
	f.Add(newIssuer(f, "metadata.azure.com").prove(now)(azureMachine, "n"))
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := v.Verify(t.Context(), text, "n"); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
