package spread

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"
)

// identity is what the nodes of an attempt are known by: all have the same.
type identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

// newIdentity makes it from the attempt's key.
func newIdentity(key []byte) (*identity, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("tradewind: nodes of one attempt")) // never fails
	private := ed25519.NewKeyFromSeed(mac.Sum(nil))
	public := private.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), // clocks do not count
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		return nil, err
	}
	return &identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// errStranger refuses a connection.
var errStranger = errors.New("spread: not a node of this attempt")

// verify holds either side to the same identity. That it has the private key TLS has proved.
func (id *identity) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) != 1 || !id.key.Equal(s.PeerCertificates[0].PublicKey) {
		return errStranger
	}
	return nil
}

func (id *identity) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: id.verify, SessionTicketsDisabled: true,
	}
}

func (id *identity) client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, VerifyConnection: id.verify,
		InsecureSkipVerify: true, //nolint:gosec // no authority knows it; verify compares the key itself
	}
}
