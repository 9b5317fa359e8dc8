package azuretest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/smallstep/pkcs7"
)

// Authority signs attested documents, as Azure does with a certificate of metadata.azure.com that a public authority
// has issued.
type Authority struct {
	root, leaf *x509.Certificate
	key        *rsa.PrivateKey
}

// NewAuthority returns a new authority with its own root certificate.
func NewAuthority() (*Authority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	issue := func(template, parent *x509.Certificate, public any) (*x509.Certificate, error) {
		template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.AddDate(1, 0, 0)
		template.BasicConstraintsValid = true
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, rootKey)
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(raw)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "An emulator"}, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := issue(template, template, &rootKey.PublicKey)
	if err != nil {
		return nil, err
	}
	const name = "metadata.azure.com"
	leaf, err := issue(&x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
	}, root, &key.PublicKey)
	return &Authority{root: root, leaf: leaf, key: key}, err
}

// Roots returns the root certificates with which to check its documents.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}

// Attest signs a machine's document for a nonce. The document is valid for six hours from at. It returns base64.
func (a *Authority) Attest(m *Machine, nonce string, at time.Time) (string, error) {
	const form = "01/02/06 15:04:05 -0700"
	text, err := json.Marshal(map[string]any{
		"nonce": nonce, "vmId": m.VMID, "subscriptionId": m.Subscription, "sku": "server",
		"timeStamp": map[string]string{
			"createdOn": at.UTC().Format(form), "expiresOn": at.Add(6 * time.Hour).UTC().Format(form),
		},
	})
	if err != nil {
		return "", err
	}
	message, err := pkcs7.NewSignedData(text)
	if err != nil {
		return "", err
	}
	message.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := message.AddSigner(a.leaf, a.key, pkcs7.SignerInfoConfig{}); err != nil {
		return "", err
	}
	raw, err := message.Finish()
	return base64.StdEncoding.EncodeToString(raw), err
}

// Certificates returns its root certificate in PEM.
func (a *Authority) Certificates() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw}))
}
