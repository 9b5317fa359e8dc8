package token

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// Audiences of pools' tokens. A join token is no machine's token, nor is either an agent's, though one key signs all.
const (
	audienceJoin    = "tradewind-pool-join"
	audienceMachine = "tradewind-pool-machine"
)

// machinePayload is the body of a pool machine's token. When it was issued is when the machine joined.
type machinePayload struct {
	jwt.RegisteredClaims
	Pool    string `json:"pool"`
	Machine string `json:"machine,omitempty"`
}

func poolAudience(machine string) string {
	if machine == "" {
		return audienceJoin
	}
	return audienceMachine
}

// MintPool signs the token of a machine of a pool, or, without a machine, one to join with. Joined and Expires are
// required, and kept to the second. It fails with ErrKey or ErrMalformed.
func MintPool(key []byte, c wire.PoolClaims) (string, error) {
	if len(key) < MinKeyBytes {
		return "", fmt.Errorf("%w: %d bytes, need %d", ErrKey, len(key), MinKeyBytes)
	}
	if err := checkPool(c); err != nil {
		return "", err
	}
	p := machinePayload{Pool: c.Pool, Machine: c.Machine}
	p.Audience = jwt.ClaimStrings{poolAudience(c.Machine)}
	p.IssuedAt, p.ExpiresAt = jwt.NewNumericDate(c.Joined), jwt.NewNumericDate(c.Expires)
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, p).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	return s, nil
}

// VerifyPool returns what a pool's token proves at now. It fails with ErrExpired, ErrForged, ErrMalformed or ErrKey.
func VerifyPool(key []byte, token string, now time.Time) (wire.PoolClaims, error) {
	if len(key) < MinKeyBytes {
		return wire.PoolClaims{}, fmt.Errorf("%w: %d bytes, need %d", ErrKey, len(key), MinKeyBytes)
	}
	if len(token) > maxBytes {
		return wire.PoolClaims{}, fmt.Errorf("%w: %d bytes long", ErrMalformed, len(token))
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithAudience(audienceJoin, audienceMachine),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(Skew),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	)
	var p machinePayload
	if _, err := parser.ParseWithClaims(token, &p, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		return wire.PoolClaims{}, typed(err)
	}
	c := p.claims()
	if len(p.Audience) != 1 || p.Audience[0] != poolAudience(p.Machine) {
		return wire.PoolClaims{}, fmt.Errorf("%w: for %v", ErrForged, p.Audience)
	}
	return c, checkPool(c)
}

// ReadPool returns what a pool's token says without proof, for its bearer.
func ReadPool(token string) (wire.PoolClaims, error) {
	if len(token) > maxBytes {
		return wire.PoolClaims{}, fmt.Errorf("%w: %d bytes long", ErrMalformed, len(token))
	}
	var p machinePayload
	if _, _, err := jwt.NewParser().ParseUnverified(token, &p); err != nil {
		return wire.PoolClaims{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c := p.claims()
	return c, checkPool(c)
}

func (p *machinePayload) claims() wire.PoolClaims {
	c := wire.PoolClaims{Pool: p.Pool, Machine: p.Machine}
	if p.IssuedAt != nil {
		c.Joined = p.IssuedAt.Time
	}
	if p.ExpiresAt != nil {
		c.Expires = p.ExpiresAt.Time
	}
	return c
}

func checkPool(c wire.PoolClaims) error {
	switch {
	case c.Pool == "":
		return fmt.Errorf("%w: no pool", ErrMalformed)
	case c.Joined.IsZero():
		return fmt.Errorf("%w: no time of joining", ErrMalformed)
	case c.Expires.IsZero():
		return fmt.Errorf("%w: no time to expire", ErrMalformed)
	}
	return nil
}
