// Package token creates and verifies the only secret that a machine gets: a JSON Web Token (RFC 7519) that names a
// node of a cluster, its job and an expiry, signed with HMAC-SHA-256. The algorithm is fixed: the one that a token
// names is never trusted (RFC 8725 §3.1).
//
// The package does not decide what a node may do. The API does.
package token

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// MinKeyBytes is the minimum length of a key, the size of the hash (RFC 7518 §3.2).
const MinKeyBytes = 32

// Skew is the tolerated difference between the clocks of the minting and the verifying side.
const Skew = time.Minute

// audience separates agent tokens from tokens for other purposes that are signed with the same key.
const audience = "tradewind-agent"

// maxBytes is the maximum size of a token that is parsed; a minted token has a few hundred bytes.
const maxBytes = 4 << 10

// Errors of this package, wrapped with detail.
var (
	// ErrExpired means that the token has expired.
	ErrExpired = errors.New("token: expired")
	// ErrForged means that the signature, the algorithm or the audience is wrong, or that it is dated in the future.
	ErrForged = errors.New("token: forged")
	// ErrMalformed means that it is not a token, or that a claim is missing.
	ErrMalformed = errors.New("token: malformed")
	// ErrKey means that the key is shorter than MinKeyBytes.
	ErrKey = errors.New("token: key too short")
)

// payload is the token's body: registered claims and our own.
type payload struct {
	jwt.RegisteredClaims
	Job     string `json:"job"`
	Cluster string `json:"cluster"`
	Rank    int    `json:"rank"`
	Boot    bool   `json:"boot,omitempty"`
	Ranks   int    `json:"ranks,omitempty"`
}

// Mint signs c. Expires is required; Issued is optional. Both are rounded to the second. It returns ErrKey or
// ErrMalformed.
func Mint(key []byte, c wire.Claims) (string, error) {
	if err := check(c); err != nil {
		return "", err
	}
	p := payload{Job: c.Job, Cluster: c.Cluster, Rank: c.Rank, Boot: c.Boot, Ranks: c.Ranks}
	p.Audience = jwt.ClaimStrings{audience}
	p.ExpiresAt = jwt.NewNumericDate(c.Expires)
	if !c.Issued.IsZero() {
		p.IssuedAt = jwt.NewNumericDate(c.Issued)
	}
	return sign(key, p)
}

// sign returns a signed token with the given body.
func sign(key []byte, body jwt.Claims) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, body).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	return s, nil
}

func checkKey(key []byte) error {
	if len(key) < MinKeyBytes {
		return fmt.Errorf("%w: %d bytes, need %d", ErrKey, len(key), MinKeyBytes)
	}
	return nil
}

// Verify returns the claims of token that are valid at now. It fails with ErrExpired, ErrForged, ErrMalformed or
// ErrKey.
func Verify(key []byte, token string, now time.Time) (wire.Claims, error) {
	var p payload
	if err := verify(key, token, now, &p, audience); err != nil {
		return wire.Claims{}, err
	}
	return p.claims()
}

// verify verifies a token for one of the given audiences at now, and decodes its body.
func verify(key []byte, token string, now time.Time, body jwt.Claims, audiences ...string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(token) > maxBytes {
		return fmt.Errorf("%w: %d bytes long", ErrMalformed, len(token))
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithAudience(audiences...),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(Skew),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	)
	if _, err := parser.ParseWithClaims(token, body, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		return mapError(err)
	}
	return nil
}

// Read returns the content of a token without verifying it. It is for the bearer, which cannot verify it and has no
// reason to doubt it. Everyone else must call Verify.
func Read(token string) (wire.Claims, error) {
	var p payload
	if err := decode(token, &p); err != nil {
		return wire.Claims{}, err
	}
	return p.claims()
}

// decode decodes the body of a token without verifying it.
func decode(token string, body jwt.Claims) error {
	if len(token) > maxBytes {
		return fmt.Errorf("%w: %d bytes long", ErrMalformed, len(token))
	}
	if _, _, err := jwt.NewParser().ParseUnverified(token, body); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func (p *payload) claims() (wire.Claims, error) {
	c := wire.Claims{Job: p.Job, Cluster: p.Cluster, Rank: p.Rank, Expires: timeOf(p.ExpiresAt),
		Issued: timeOf(p.IssuedAt), Boot: p.Boot, Ranks: p.Ranks}
	if err := check(c); err != nil {
		return wire.Claims{}, err
	}
	return c, nil
}

func timeOf(d *jwt.NumericDate) time.Time {
	if d == nil {
		return time.Time{}
	}
	return d.Time
}

func check(c wire.Claims) error {
	switch {
	case c.Cluster == "":
		return fmt.Errorf("%w: no cluster", ErrMalformed)
	case c.Rank < 0:
		return fmt.Errorf("%w: rank %d", ErrMalformed, c.Rank)
	case c.Ranks < 0 || c.Ranks > 0 && !c.Boot:
		return fmt.Errorf("%w: for %d ranks, but not a boot token", ErrMalformed, c.Ranks)
	case c.Expires.IsZero():
		return fmt.Errorf("%w: no expiry", ErrMalformed)
	}
	return nil
}

// mapError maps the library's errors to this package's. A bad signature comes first, because nothing else in such a
// token can be trusted.
func mapError(err error) error {
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable),
		errors.Is(err, jwt.ErrTokenInvalidAudience), errors.Is(err, jwt.ErrTokenUsedBeforeIssued),
		errors.Is(err, jwt.ErrTokenNotValidYet):
		return fmt.Errorf("%w: %w", ErrForged, err)
	case errors.Is(err, jwt.ErrTokenExpired):
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}
