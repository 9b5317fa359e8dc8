package identity

import (
	"context"
	"crypto/x509"
	_ "embed" // Azure's authorities
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/smallstep/pkcs7"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// AzureName is the catalogue's name of the cloud.
const AzureName = "azure"

// AzureConfig specifies the trusted certificates, hosts and domains. The zero values are for Azure's public cloud.
type AzureConfig struct {
	// Roots are the authorities to which the certificate must lead; nil means the system's and Azure's, and adds the
	// published authorities to Intermediates.
	Roots *x509.CertPool
	// Intermediates are known authorities between the certificate and a root, which are not fetched.
	Intermediates []*x509.Certificate
	// Hosts are the only hosts from which certificates of issuers are fetched; nil means Microsoft's and DigiCert's.
	Hosts []string
	// Client fetches them; nil means a client that uses the proxy of the environment. It must follow no redirects.
	Client *http.Client
	// Names are the domains that the certificate must be for, or below; empty means metadata.azure.com.
	Names []string
	// Now is the time at which documents and certificates must be valid; nil means time.Now.
	Now func() time.Time
}

// LocalAzure returns the AzureConfig of an emulator or a proxy on this computer, from certificates in PEM: roots sign
// themselves, others are intermediates. Issuers may be fetched from this computer too.
func LocalAzure(certificates []byte) (AzureConfig, error) {
	cfg := AzureConfig{Roots: x509.NewCertPool(), Hosts: append([]string{"127.0.0.1", "::1"}, hosts...)}
	roots, between, err := azureParse(certificates)
	for _, root := range roots {
		cfg.Roots.AddCert(root)
	}
	cfg.Intermediates = between
	return cfg, err
}

// parse returns the certificates in PEM that sign themselves, and the others. It fails if there is no root.
func azureParse(certificates []byte) (roots, between []*x509.Certificate, err error) {
	for block, rest := pem.Decode(certificates); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("identity: certificate %d: %w", len(roots)+len(between)+1, err)
		case cert.CheckSignatureFrom(cert) == nil:
			roots = append(roots, cert)
		default:
			between = append(between, cert)
		}
	}
	if len(roots) == 0 {
		return nil, nil, errors.New("identity: there is no root certificate in PEM")
	}
	return roots, between, nil
}

// AzureVerifier is a Verifier of the attested documents of Azure's instance metadata service (Azure Instance Metadata
// Service, "Attested data"): a PKCS7 message with the machine's ID, its subscription, the nonce of the request and the
// expiry, signed by a certificate of metadata.azure.com. The document does not contain the region.
//
// The message contains only the certificate that signed it. This package contains the authorities between it and a
// root, as far as Microsoft has published them. Azure changes them without notice, so unknown ones are fetched from
// the addresses that the certificates name, and cached.
type AzureVerifier struct {
	cfg     AzureConfig
	issuers *issuers
}

var _ Verifier = (*AzureVerifier)(nil)

// published are Azure's authorities: the roots, and those between them and the certificates that sign documents.
//
//go:embed azure_certificates.pem
var azurePublished []byte

// trustAzure completes an AzureConfig without roots: it trusts the system's roots, and Azure's also if the system has
// none.
func trustAzure(cfg *AzureConfig) error {
	roots, between, err := azureParse(azurePublished)
	if err != nil {
		return err
	}
	if cfg.Roots, err = x509.SystemCertPool(); err != nil {
		cfg.Roots = x509.NewCertPool()
	}
	for _, root := range roots {
		cfg.Roots.AddCert(root)
	}
	cfg.Intermediates = append(between, cfg.Intermediates...)
	return nil
}

// NewAzure returns a verifier.
func NewAzure(cfg AzureConfig) (*AzureVerifier, error) {
	if cfg.Roots == nil {
		if err := trustAzure(&cfg); err != nil {
			return nil, err
		}
	}
	if len(cfg.Names) == 0 {
		cfg.Names = []string{"metadata.azure.com"}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Hosts == nil {
		cfg.Hosts = hosts
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &AzureVerifier{cfg, &issuers{
		client: cfg.Client, hosts: cfg.Hosts, known: map[string]fetched{},
	}}, nil
}

// document has the fields of the attested document that are used.
type azureDocument struct {
	Nonce        string `json:"nonce"`
	VMID         string `json:"vmId"`
	Subscription string `json:"subscriptionId"`
	TimeStamp    struct {
		Created string `json:"createdOn"`
		Expires string `json:"expiresOn"`
	} `json:"timeStamp"`
}

// skew is the maximum difference between Azure's clock and the broker's.
const azureSkew = time.Minute

// stamp is the form of Azure's times.
const stamp = "01/02/06 15:04:05 -0700"

// Verify implements identity.Verifier. The text is the answer of the metadata service: JSON with the encoding and
// the signature. The document must contain the agent's nonce.
func (v *AzureVerifier) Verify(ctx context.Context, text, nonce string) (wire.Machine, error) {
	var answer struct {
		Encoding  string `json:"encoding"`
		Signature string `json:"signature"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Encoding != "pkcs7" {
		return azureInvalid("it is not an answer of Azure's metadata service")
	}
	raw, err := base64.StdEncoding.DecodeString(answer.Signature)
	if err != nil {
		return azureInvalid("it is not base64")
	}
	message, err := pkcs7.Parse(raw)
	if err != nil || len(message.Signers) != 1 {
		return azureInvalid("it is not a PKCS7 message with one signature")
	}
	// The chain is checked last, because that may cause requests.
	if err := message.Verify(); err != nil {
		return azureInvalid("its signature is wrong")
	}
	signer := message.GetOnlySigner()
	if signer == nil || !v.named(signer) {
		return azureInvalid("its signer is not %s", strings.Join(v.cfg.Names, " or "))
	}
	now := v.cfg.Now()
	var doc azureDocument
	if err := json.Unmarshal(message.Content, &doc); err != nil || doc.VMID == "" || doc.Subscription == "" {
		return azureInvalid("it is not an attested document")
	}
	if err := checkTimes(doc, now); err != nil {
		return azureInvalid("%v", err)
	}
	if nonce == "" || doc.Nonce != wire.AzureNonce(nonce) && doc.Nonce != nonce { // old agents ask for the whole nonce
		return azureInvalid("it was issued to another agent")
	}
	known := append(message.Certificates, v.cfg.Intermediates...)
	switch err := v.issuers.link(ctx, signer, known, v.cfg.Roots, now); {
	case errors.Is(err, ErrUnavailable):
		return wire.Machine{}, err
	case err != nil:
		return azureInvalid("its signature is not from a trusted authority")
	}
	return wire.Machine{Cloud: AzureName, Account: strings.ToLower(doc.Subscription),
		ID: strings.ToLower(doc.VMID)}, nil
}

// named reports whether a certificate is for one of the domains.
func (v *AzureVerifier) named(cert *x509.Certificate) bool {
	return slices.ContainsFunc(append(slices.Clone(cert.DNSNames), cert.Subject.CommonName), func(name string) bool {
		return slices.ContainsFunc(v.cfg.Names, func(domain string) bool {
			return name == domain || strings.HasSuffix(name, "."+domain)
		})
	})
}

// checkTimes returns an error if the document is not valid now.
func checkTimes(doc azureDocument, now time.Time) error {
	created, err := time.Parse(stamp, doc.TimeStamp.Created)
	if err != nil {
		return errors.New("it has no creation time")
	}
	expires, err := time.Parse(stamp, doc.TimeStamp.Expires)
	if err != nil {
		return errors.New("it has no expiry")
	}
	if now.Before(created.Add(-azureSkew)) || now.After(expires.Add(azureSkew)) {
		return fmt.Errorf("it was valid from %s to %s", created.Format(time.RFC3339), expires.Format(time.RFC3339))
	}
	return nil
}

func azureInvalid(format string, args ...any) (wire.Machine, error) {
	return wire.Machine{}, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
