package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// Times of keys.
const (
	keepKeys  = time.Hour   // how long keys are cached
	leastLook = time.Minute // minimum time between two fetches for a missing key
	// fetchLimit is the maximum duration of a fetch.
	fetchLimit = 10 * time.Second
	// skew is the maximum difference between clocks.
	skew = time.Minute
	// maxKeyBytes is the maximum size of a key set.
	maxKeyBytes = 1 << 20
)

// keySet caches the public keys of one token signer (JSON Web Key Sets, RFC 7517), and fetches them again when they
// are old or one is missing. Fetch and Now are required. It is safe for concurrent use.
type keySet struct {
	// Fetch reads the key set, at most maxKeyBytes.
	Fetch func(ctx context.Context) ([]byte, error)
	Now   func() time.Time

	mu     sync.Mutex
	keys   map[string]crypto.PublicKey
	looked time.Time
}

// Key returns a key by its ID: an *rsa.PublicKey or an *ecdsa.PublicKey. It fetches the keys when the cached ones are
// old and, not too often, when the key is missing. It fails with identity.ErrInvalid for an unknown key, and with
// identity.ErrUnavailable if the keys cannot be fetched.
func (s *keySet) Key(ctx context.Context, id string) (crypto.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	k := s.keys[id]
	if age := now.Sub(s.looked); s.keys == nil || age > keepKeys || k == nil && age > leastLook {
		keys, err := s.fetch(ctx)
		switch {
		case err == nil:
			s.keys, s.looked = keys, now
			k = keys[id]
		case k == nil: // otherwise use the cached key, which was valid at the last fetch
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if k == nil {
		return nil, fmt.Errorf("%w: it was signed with an unknown key", ErrInvalid)
	}
	return k, nil
}

func (s *keySet) fetch(ctx context.Context) (map[string]crypto.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	body, err := s.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	return parse(body)
}

// key is a key of a set (RFC 7518, section 6).
type key struct {
	Kind     string `json:"kty"`
	ID       string `json:"kid"`
	Modulus  string `json:"n"`
	Exponent string `json:"e"`
	Curve    string `json:"crv"`
	X        string `json:"x"`
	Y        string `json:"y"`
}

// parse reads the RSA and P-256 keys of a set and ignores others. A set without such keys is an error.
func parse(body []byte) (map[string]crypto.PublicKey, error) {
	var set struct {
		Keys []key `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	keys := map[string]crypto.PublicKey{}
	for _, k := range set.Keys {
		if k.ID == "" {
			continue
		}
		if public := k.rsa(); public != nil {
			keys[k.ID] = public
		} else if public := k.ecdsa(); public != nil {
			keys[k.ID] = public
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("key set: no RSA or P-256 keys")
	}
	return keys, nil
}

func (k key) rsa() *rsa.PublicKey {
	const minBits, maxBits, maxExponent = 2048, 8192, 1<<31 - 1
	n, nerr := base64.RawURLEncoding.DecodeString(k.Modulus)
	e, eerr := base64.RawURLEncoding.DecodeString(k.Exponent)
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if k.Kind != "RSA" || nerr != nil || eerr != nil || modulus.BitLen() < minBits || modulus.BitLen() > maxBits ||
		!exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() > maxExponent {
		return nil
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}
}

func (k key) ecdsa() *ecdsa.PublicKey {
	x, xerr := base64.RawURLEncoding.DecodeString(k.X)
	y, yerr := base64.RawURLEncoding.DecodeString(k.Y)
	if k.Kind != "EC" || k.Curve != "P-256" || xerr != nil || yerr != nil {
		return nil
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil
	}
	return public
}
