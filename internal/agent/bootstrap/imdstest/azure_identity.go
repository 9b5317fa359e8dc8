package imdstest

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
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/smallstep/pkcs7"
)

// AzureAuthority signs attested documents as Azure does: with a certificate of metadata.azure.com at the end of a
// chain of four, of which a document contains only the last. Each certificate names the address of its issuer, which
// the authority serves ("Troubleshoot IMDS certificate chain issues on Linux VMs", "Certificate chain architecture").
type AzureAuthority struct {
	// Issuers is the URL at which the authority itself, an http.Handler, serves the certificates of issuers. Set it
	// before the first document. Empty means Microsoft's, which only a test's client can redirect.
	Issuers string

	root    *x509.Certificate
	rootKey *ecdsa.PrivateKey
	key     *rsa.PrivateKey // of the leaf

	once    sync.Once
	served  map[string]*x509.Certificate // by file name
	leaf    *x509.Certificate
	failure error

	mu      sync.Mutex
	down    bool
	fetched int
}

// Files of the certificates of issuers, and their usual place.
const (
	microsoft   = "http://www.microsoft.com/pkiops/certs"
	rootFile    = "root.crt"
	crossFile   = "cross.crt"
	issuingFile = "issuing.crt"
)

// NewAzureAuthority returns a new authority with its own root certificate.
func NewAzureAuthority() (*AzureAuthority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	a := &AzureAuthority{rootKey: rootKey, key: key, served: map[string]*x509.Certificate{}}
	template := ca("An emulator's root")
	a.root, err = issue(template, template, &rootKey.PublicKey, rootKey)
	a.served[rootFile] = a.root
	return a, err
}

func ca(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
}

func issue(template, parent *x509.Certificate, public any, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.AddDate(1, 0, 0)
	template.BasicConstraintsValid = true
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// chain issues the certificates below the root, each with the address of its issuer.
func (a *AzureAuthority) chain() error {
	a.once.Do(func() {
		if a.Issuers == "" {
			a.Issuers = microsoft
		}
		var cross, issuing *x509.Certificate
		cross, crossKey, err := a.below(a.root, a.rootKey, ca("An emulator's cross-signed root"), rootFile)
		if err == nil {
			a.served[crossFile] = cross
			var key *ecdsa.PrivateKey
			if issuing, key, err = a.below(cross, crossKey, ca("An emulator's CA 02"), crossFile); err == nil {
				a.served[issuingFile] = issuing
				const name = "metadata.azure.com"
				a.leaf, err = issue(&x509.Certificate{
					Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
					IssuingCertificateURL: []string{a.Issuers + "/" + issuingFile},
				}, issuing, &a.key.PublicKey, key)
			}
		}
		a.failure = err
	})
	return a.failure
}

func (a *AzureAuthority) below(parent *x509.Certificate, by *ecdsa.PrivateKey, template *x509.Certificate,
	file string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.IssuingCertificateURL = []string{a.Issuers + "/" + file}
	cert, err := issue(template, parent, &key.PublicKey, by)
	return cert, key, err
}

// Roots returns the root certificates with which to check its documents.
func (a *AzureAuthority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}

// ServeHTTP serves the certificates of issuers in DER. The last part of the path selects one.
func (a *AzureAuthority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	down := a.down
	a.fetched++
	a.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if err := a.chain(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	cert := a.served[path.Base(r.URL.Path)]
	if cert == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/pkix-cert")
	_, _ = w.Write(cert.Raw)
}

// Down makes the addresses of issuers fail, or answer again.
func (a *AzureAuthority) Down(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = is
}

// Fetched returns how many requests the addresses of issuers got.
func (a *AzureAuthority) Fetched() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetched
}

// Attest signs a machine's document for a nonce. The document is valid for six hours from at. It returns base64. As in
// Azure's documents, the message has no authenticated attributes, and its digest algorithm is the identifier of a
// signature (sha256WithRSAEncryption).
func (a *AzureAuthority) Attest(m *AzureMachine, nonce string, at time.Time) (string, error) {
	if err := a.chain(); err != nil {
		return "", err
	}
	const form = "01/02/06 15:04:05 -0000"
	text, err := json.Marshal(map[string]any{
		"nonce": nonce, "vmId": m.VMID, "subscriptionId": m.Subscription, "sku": "server", "licenseType": "",
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
	if err := message.SignWithoutAttr(a.leaf, a.key, pkcs7.SignerInfoConfig{}); err != nil {
		return "", err
	}
	data := message.GetSignedData()
	data.DigestAlgorithmIdentifiers[0].Algorithm = pkcs7.OIDEncryptionAlgorithmRSASHA256
	data.SignerInfos[0].DigestAlgorithm.Algorithm = pkcs7.OIDEncryptionAlgorithmRSASHA256
	raw, err := message.Finish()
	return base64.StdEncoding.EncodeToString(raw), err
}

// Certificates returns its root certificate in PEM.
func (a *AzureAuthority) Certificates() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw}))
}
