// Package peer authenticates the nodes of an attempt or of a gang to each other. The broker gives all of them a key,
// from which each derives the same identity. Both sides of a TLS connection must prove that identity.
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

// Identity is the identity that all nodes share.
type Identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

// New derives the identity from a key. what is a text that makes the identities for different uses of one key
// different.
func New(key []byte, what string) (*Identity, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("tradewind: " + what)) // never fails
	private := ed25519.NewKeyFromSeed(mac.Sum(nil))
	public := private.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), // at any time
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		return nil, err
	}
	return &Identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// errWrongIdentity is the error for a connection from another program.
var errWrongIdentity = errors.New("peer: not one of the nodes")

// verify checks that the other side has the same identity. TLS has already checked that it has the private key.
func (id *Identity) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) != 1 || !id.key.Equal(s.PeerCertificates[0].PublicKey) {
		return errWrongIdentity
	}
	return nil
}

// Server returns the TLS configuration of the listening side.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: id.verify, SessionTicketsDisabled: true,
	}
}

// Client returns the TLS configuration of the dialing side.
func (id *Identity) Client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, VerifyConnection: id.verify,
		InsecureSkipVerify: true, //nolint:gosec // no authority issued it; verify compares the key itself
	}
}
