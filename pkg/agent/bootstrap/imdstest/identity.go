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

// Authority signs identity documents, as AWS does with a key and a certificate of its own.
type Authority struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority makes an authority.
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

// Certificates are what its documents are checked by, PEM.
func (a *Authority) Certificates() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// Sign makes a PKCS7 message of a text, SHA-256 with RSA-2048, in the base64 of several lines that EC2 answers with.
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

// Document is the machine's instance identity document.
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

// Proof is the document as its authority signs it; empty where it cannot.
func (m *Machine) Proof() string {
	text, err := m.Signer.Sign(m.Document())
	if err != nil {
		return ""
	}
	return text
}
