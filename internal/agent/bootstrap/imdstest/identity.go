package imdstest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"time"

	"github.com/smallstep/pkcs7"
)

// Authority signs identity documents, as AWS does with its own key and certificate.
type Authority struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns a new authority.
func NewAuthority() (*Authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		Subject: pkix.Name{Organization: []string{"An emulator"}}, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	return &Authority{key: key, cert: cert}, nil
}

// Certificates returns the certificate with which to check its documents, in PEM.
func (a *Authority) Certificates() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// Sign returns a PKCS7 message with a text, signed with SHA-256 and RSA-2048, in base64 of several lines, as EC2
// returns it.
func (a *Authority) Sign(text []byte) (string, error) {
	message, err := pkcs7.NewSignedData(text)
	if err != nil {
		return "", err
	}
	message.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := message.AddSigner(a.cert, a.key, pkcs7.SignerInfoConfig{}); err != nil {
		return "", err
	}
	raw, err := message.Finish()
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for text := base64.StdEncoding.EncodeToString(raw); text != ""; {
		n := min(len(text), 64)
		lines.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	return lines.String(), nil
}

// Document returns the machine's instance identity document.
func (m *Machine) Document() []byte {
	b, err := json.MarshalIndent(map[string]any{
		"accountId": m.Account, "architecture": "x86_64", "availabilityZone": m.Zone, "instanceId": m.ID,
		"privateIp": m.Address, "region": m.Region, "version": "2017-09-30", "pendingTime": "2026-01-01T00:00:00Z",
	}, "", "  ")
	if err != nil {
		return nil
	}
	return b
}

// Proof returns the signed document; empty if signing fails.
func (m *Machine) Proof() string {
	text, err := m.Signer.Sign(m.Document())
	if err != nil {
		return ""
	}
	return text
}
