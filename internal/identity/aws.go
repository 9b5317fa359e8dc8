package identity

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/smallstep/pkcs7"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// AWSName is the catalogue's name of the cloud.
const AWSName = "aws"

// published are AWS's certificates for RSA-2048 signatures, each after a comment with its region, from the EC2 User
// Guide's "AWS public certificates for instance identity document signatures".
//
//go:embed aws_certificates.pem
var published []byte

// ErrCertificates means that a setting contains no certificates, or one without an RSA key.
var ErrCertificates = errors.New("identity: certificates")

// AWSVerifier is a Verifier of the instance identity documents of EC2, signed as PKCS7 with RSA-2048 (EC2 User Guide,
// "Verify the instance identity document"). AWS publishes one certificate for each region, valid until the 2190s; they
// are compiled in, so that no request is needed.
type AWSVerifier struct {
	trusted func() (*certificates, error)
}

var _ Verifier = (*AWSVerifier)(nil)

// certificates are for one region each, or for any region.
type certificates struct {
	regions map[string]*x509.Certificate
	any     []*x509.Certificate
}

// awsCertificates parses the published certificates when the first machine proves itself: most processes never need
// them and start faster without.
var awsCertificates = sync.OnceValues(func() (*certificates, error) { return read(published) })

// NewAWS returns a verifier with AWS's certificates or, if text is not empty, only with the PEM certificates in text:
// for emulators, and for regions newer than this program. A certificate after a comment "# REGION" is valid only for
// that region. It fails with ErrCertificates.
func NewAWS(text string) (*AWSVerifier, error) {
	if strings.TrimSpace(text) == "" {
		return &AWSVerifier{awsCertificates}, nil
	}
	own, err := read([]byte(text))
	if err != nil {
		return nil, err
	}
	return &AWSVerifier{func() (*certificates, error) { return own, nil }}, nil
}

func read(text []byte) (*certificates, error) {
	all := &certificates{regions: map[string]*x509.Certificate{}}
	for rest := text; ; {
		before, _, _ := bytes.Cut(rest, []byte("-----BEGIN"))
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCertificates, err)
		}
		if _, ok := cert.PublicKey.(*rsa.PublicKey); !ok {
			return nil, fmt.Errorf("%w: the key of %s is not RSA", ErrCertificates, cert.Subject)
		}
		if region := regionInComment(string(before)); region != "" {
			all.regions[region] = cert
		} else {
			all.any = append(all.any, cert)
		}
	}
	if len(all.regions)+len(all.any) == 0 {
		return nil, fmt.Errorf("%w: none in PEM form", ErrCertificates)
	}
	return all, nil
}

// regionInComment returns the region in the last comment of a text.
func regionInComment(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	region, ok := strings.CutPrefix(lines[len(lines)-1], "#")
	if !ok {
		return ""
	}
	return strings.TrimSpace(region)
}

// document has the fields of the instance identity document that are used.
type document struct {
	AccountID  string `json:"accountId"`
	InstanceID string `json:"instanceId"`
	Region     string `json:"region"`
}

// Verify implements identity.Verifier. The text is the base64 of a PKCS7 message that contains the document, with or
// without PEM lines. EC2 signs no nonce.
func (v *AWSVerifier) Verify(_ context.Context, text, _ string) (wire.Machine, error) {
	raw, err := base64.StdEncoding.DecodeString(stripPEM(text))
	if err != nil {
		return invalid("it is not base64")
	}
	message, err := pkcs7.Parse(raw)
	if err != nil {
		return invalid("it is not a PKCS7 message")
	}
	if len(message.Signers) != 1 {
		return invalid("it has %d signatures", len(message.Signers))
	}
	var doc document
	if err := json.Unmarshal(message.Content, &doc); err != nil || doc.InstanceID == "" || doc.Region == "" ||
		doc.AccountID == "" {
		return invalid("it is not an instance identity document")
	}
	known, err := v.trusted()
	if err != nil {
		return wire.Machine{}, err
	}
	trusted := known.any
	if cert := known.regions[doc.Region]; cert != nil {
		trusted = append([]*x509.Certificate{cert}, trusted...)
	}
	if len(trusted) == 0 {
		return invalid("no certificate is known for region %q", doc.Region)
	}
	for _, cert := range trusted {
		// Ignore the certificates in the message: anyone can put them there.
		message.Certificates = []*x509.Certificate{cert}
		if message.Verify() == nil {
			return wire.Machine{Cloud: AWSName, Account: doc.AccountID, Region: doc.Region, ID: doc.InstanceID}, nil
		}
	}
	return invalid("its signature is not AWS's for region %q", doc.Region)
}

// stripPEM returns only the base64 of a text.
func stripPEM(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "-----BEGIN PKCS7-----", ""), "-----END PKCS7-----", "")
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

func invalid(format string, args ...any) (wire.Machine, error) {
	return wire.Machine{}, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
