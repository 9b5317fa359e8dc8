// Package peer is by what the nodes of an attempt, or of a gang, know each other: a key that the broker has given
// to all of them, from which each makes the same identity, for either side of a TLS connection to prove.
package peer

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

// Identity is what nodes are known by: all have the same.
type Identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

// New makes the identity of a key. what parts those for one use from those for another.
func New(key []byte, what string) (*Identity, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("tradewind: " + what)) // never fails
	private := ed25519.NewKeyFromSeed(mac.Sum(nil))
	public := private.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), // clocks do not count
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		return nil, err
	}
	return &Identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// errStranger refuses a connection.
var errStranger = errors.New("peer: not one of the nodes")

// verify holds either side to the same identity. That it has the private key TLS has proved.
func (id *Identity) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) != 1 || !id.key.Equal(s.PeerCertificates[0].PublicKey) {
		return errStranger
	}
	return nil
}

// Server is for who listens.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: id.verify, SessionTicketsDisabled: true,
	}
}

// Client is for who dials.
func (id *Identity) Client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, VerifyConnection: id.verify,
		InsecureSkipVerify: true, //nolint:gosec // no authority knows it; verify compares the key itself
	}
}
