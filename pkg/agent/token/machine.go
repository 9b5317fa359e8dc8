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
	if err := checkPool(c); err != nil {
		return "", err
	}
	p := machinePayload{Pool: c.Pool, Machine: c.Machine}
	p.Audience = jwt.ClaimStrings{poolAudience(c.Machine)}
	p.IssuedAt, p.ExpiresAt = jwt.NewNumericDate(c.Joined), jwt.NewNumericDate(c.Expires)
	return sign(key, p)
}

// VerifyPool returns what a pool's token proves at now. It fails with ErrExpired, ErrForged, ErrMalformed or ErrKey.
func VerifyPool(key []byte, token string, now time.Time) (wire.PoolClaims, error) {
	var p machinePayload
	if err := prove(key, token, now, &p, audienceJoin, audienceMachine); err != nil {
		return wire.PoolClaims{}, err
	}
	if len(p.Audience) != 1 || p.Audience[0] != poolAudience(p.Machine) {
		return wire.PoolClaims{}, fmt.Errorf("%w: for %v", ErrForged, p.Audience)
	}
	return p.claims()
}

// ReadPool returns what a pool's token says without proof, for its bearer.
func ReadPool(token string) (wire.PoolClaims, error) {
	var p machinePayload
	if err := believe(token, &p); err != nil {
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
		return fmt.Errorf("%w: no time of joining", ErrMalformed)
	case c.Expires.IsZero():
		return fmt.Errorf("%w: no time to expire", ErrMalformed)
	}
	return nil
}
