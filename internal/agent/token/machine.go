package token

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// Audiences of pool tokens. They separate join tokens, machine tokens and agent tokens, which are all signed with one
// key.
const (
	audienceJoin    = "tradewind-pool-join"
	audienceMachine = "tradewind-pool-machine"
)

// machinePayload is the body of a pool machine's token. Its issue time is the time at which the machine joined.
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

// MintPool signs the token of a machine of a pool or, without a machine, a join token. Joined and Expires are
// required and rounded to the second. It returns ErrKey or ErrMalformed.
func MintPool(key []byte, c wire.PoolClaims) (string, error) {
	if err := checkPool(c); err != nil {
		return "", err
	}
	p := machinePayload{Pool: c.Pool, Machine: c.Machine}
	p.Audience = jwt.ClaimStrings{poolAudience(c.Machine)}
	p.IssuedAt, p.ExpiresAt = jwt.NewNumericDate(c.Joined), jwt.NewNumericDate(c.Expires)
	return sign(key, p)
}

// VerifyPool returns the claims of a pool token that are valid at now. It fails with ErrExpired, ErrForged,
// ErrMalformed or ErrKey.
func VerifyPool(key []byte, token string, now time.Time) (wire.PoolClaims, error) {
	var p machinePayload
	if err := verify(key, token, now, &p, audienceJoin, audienceMachine); err != nil {
		return wire.PoolClaims{}, err
	}
	if len(p.Audience) != 1 || p.Audience[0] != poolAudience(p.Machine) {
		return wire.PoolClaims{}, fmt.Errorf("%w: for %v", ErrForged, p.Audience)
	}
	return p.claims()
}

// ReadPool returns the content of a pool token without verifying it, for its bearer.
func ReadPool(token string) (wire.PoolClaims, error) {
	var p machinePayload
	if err := decode(token, &p); err != nil {
		return wire.PoolClaims{}, err
	}
	return p.claims()
}

func (p *machinePayload) claims() (wire.PoolClaims, error) {
	c := wire.PoolClaims{Pool: p.Pool, Machine: p.Machine, Joined: timeOf(p.IssuedAt), Expires: timeOf(p.ExpiresAt)}
	return c, checkPool(c)
}

func checkPool(c wire.PoolClaims) error {
	switch {
	case c.Pool == "":
		return fmt.Errorf("%w: no pool", ErrMalformed)
	case c.Joined.IsZero():
		return fmt.Errorf("%w: no issue time", ErrMalformed)
	case c.Expires.IsZero():
		return fmt.Errorf("%w: no expiry", ErrMalformed)
	}
	return nil
}
