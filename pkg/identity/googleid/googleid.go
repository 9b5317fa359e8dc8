// Package googleid checks the identity tokens of Compute Engine (Compute Engine documentation, "Verify the identity of
// VMs"): JSON Web Tokens for the broker's address, signed by one of Google's keys, which are fetched and kept. A
// machine has them only with a service account; one without any role is enough.
package googleid

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/identity"
)

// Name is the catalogue's name of the cloud.
const Name = "gcp"

// Where Google is.
const (
	Issuer = "https://accounts.google.com"
	Keys   = "https://www.googleapis.com/oauth2/v3/certs"
)

// Config says what is trusted.
type Config struct {
	// Audience is the broker's address, as agents know it. Required.
	Audience string
	// Issuer and Keys, the URL of a JSON Web Key Set, are Google's when empty.
	Issuer, Keys string
	Client       *http.Client     // that fetches the keys; one of its own when nil
	Now          func() time.Time // the machine's when nil
}

// Times of keys.
const (
	keepKeys   = time.Hour        // kept keys are believed without another look
	leastLook  = time.Minute      // between two looks for a key that is not there
	fetchLimit = 10 * time.Second // for a look
	skew       = time.Minute      // that clocks may differ
	maxKeys    = 1 << 20          // bytes of a key set
)

// Verifier is an identity.Verifier.
type Verifier struct {
	cfg Config

	mu     sync.Mutex
	keys   map[string]*rsa.PublicKey
	looked time.Time
}

var _ identity.Verifier = (*Verifier)(nil)

// New makes a verifier. It calls nobody.
func New(cfg Config) (*Verifier, error) {
	if cfg.Audience == "" {
		return nil, errors.New("googleid: no audience")
	}
	if cfg.Issuer == "" {
		cfg.Issuer = Issuer
	}
	if cfg.Keys == "" {
		cfg.Keys = Keys
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: fetchLimit}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Verifier{cfg: cfg}, nil
}

// payload is what of a token is of use; it is there where the token was asked for with format=full.
type payload struct {
	jwt.RegisteredClaims
	Google struct {
		Machine struct {
			Project string `json:"project_id"`
			Zone    string `json:"zone"`
			ID      string `json:"instance_id"`
		} `json:"compute_engine"`
	} `json:"google"`
}

// Verify implements identity.Verifier. The machine's ID is the number that Google gave it.
func (v *Verifier) Verify(ctx context.Context, text, _ string) (wire.Machine, error) {
	var p payload
	if err := v.parse(ctx, text, &p); err != nil {
		return wire.Machine{}, err
	}
	m := p.Google.Machine
	if m.ID == "" || m.Project == "" || m.Zone == "" {
		return wire.Machine{}, invalid("it names no machine")
	}
	region := m.Zone
	if i := strings.LastIndexByte(region, '-'); i > 0 {
		region = region[:i]
	}
	return wire.Machine{Cloud: Name, Account: m.Project, Region: region, ID: m.ID}, nil
}

// Account is the address of the service account that a token was made for: of pushes of Pub/Sub the one that their
// subscription names (Pub/Sub documentation, "Authentication for push subscriptions"). It fails as Verify does.
func (v *Verifier) Account(ctx context.Context, text string) (string, error) {
	var p struct {
		jwt.RegisteredClaims
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := v.parse(ctx, text, &p); err != nil {
		return "", err
	}
	if p.Email == "" || !p.Verified {
		return "", invalid("it names no service account")
	}
	return p.Email, nil
}

// parse checks a token's signature, issuer, audience and times, and reads its claims.
func (v *Verifier) parse(ctx context.Context, text string, p jwt.Claims) error {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithIssuer(v.cfg.Issuer),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(skew),
		jwt.WithTimeFunc(v.cfg.Now),
	)
	_, err := parser.ParseWithClaims(strings.TrimSpace(text), p, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		return v.key(ctx, id)
	})
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return err
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return invalid("it is for another address than %s", v.cfg.Audience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return invalid("it has expired")
	case err != nil:
		return invalid("it is no identity token of %s", v.cfg.Issuer)
	}
	return nil
}

// key returns a key by its name. They are fetched when they have been kept for long, and, not too often, for one that
// is not there: Google's change within days.
func (v *Verifier) key(ctx context.Context, id string) (*rsa.PublicKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.cfg.Now()
	k := v.keys[id]
	if age := now.Sub(v.looked); v.keys == nil || age > keepKeys || k == nil && age > leastLook {
		keys, err := v.fetch(ctx)
		switch {
		case err == nil:
			v.keys, v.looked = keys, now
		case k == nil: // else a key that was good an hour ago is good
			return nil, fmt.Errorf("%w: %w", identity.ErrUnavailable, err)
		}
		if err == nil {
			k = keys[id]
		}
	}
	if k == nil {
		return nil, fmt.Errorf("%w: it was signed with an unknown key", identity.ErrInvalid)
	}
	return k, nil
}

// fetch reads the key set (RFC 7517).
func (v *Verifier) fetch(ctx context.Context) (map[string]*rsa.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.cfg.Keys, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := v.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeys))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", v.cfg.Keys, res.Status)
	}
	return parseKeys(body)
}

// parseKeys reads the RSA keys of a set; others are of no use. A set without any is an error.
func parseKeys(body []byte) (map[string]*rsa.PublicKey, error) {
	var set struct {
		Keys []struct {
			Kind     string `json:"kty"`
			ID       string `json:"kid"`
			Modulus  string `json:"n"`
			Exponent string `json:"e"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("googleid: key set: %w", err)
	}
	const minBits, maxBits, maxExponent = 2048, 8192, 1<<31 - 1
	keys := map[string]*rsa.PublicKey{}
	for _, k := range set.Keys {
		n, nerr := base64.RawURLEncoding.DecodeString(k.Modulus)
		e, eerr := base64.RawURLEncoding.DecodeString(k.Exponent)
		modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
		if k.Kind != "RSA" || k.ID == "" || nerr != nil || eerr != nil || modulus.BitLen() < minBits ||
			modulus.BitLen() > maxBits || !exponent.IsInt64() || exponent.Int64() < 3 ||
			exponent.Int64() > maxExponent {
			continue
		}
		keys[k.ID] = &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}
	}
	if len(keys) == 0 {
		return nil, errors.New("googleid: key set: no RSA keys")
	}
	return keys, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", identity.ErrInvalid, fmt.Sprintf(format, args...))
}
