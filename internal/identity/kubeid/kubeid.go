// Package kubeid checks which pod of which cluster calls the broker, with the token of a service account that the
// kubelet created for that pod and for the broker's address (Kubernetes documentation, "ServiceAccount token volume
// projection"; the claims are from KEP-1205 and KEP-4193). It is signed with the cluster's keys, which its API server
// publishes to all service accounts (the role system:service-account-issuer-discovery). The account does not matter: it
// needs no rights, and an API server rejects tokens that were created for another recipient.
package kubeid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/internal/identity/keyset"
)

// Name is the catalogue's name of the cloud.
const Name = "kubernetes"

// Place is a cluster whose pods are known.
type Place struct {
	// Name is the region of its offers. Namespace is the namespace of its pods.
	Name, Namespace string
	// Keys reads the cluster's key set: the answer of its API server at /openid/v1/jwks.
	Keys func(ctx context.Context) ([]byte, error)
}

// Config says what to trust.
type Config struct {
	// Audience is the broker's address, as agents know it. Required.
	Audience string
	Places   []Place          // at least one
	Now      func() time.Time // nil means time.Now
}

// Verifier is an identity.Verifier.
type Verifier struct {
	cfg  Config
	keys []keyset.Set // by place
}

var _ identity.Verifier = (*Verifier)(nil)

// New returns a verifier. It makes no requests.
func New(cfg Config) (*Verifier, error) {
	if cfg.Audience == "" || len(cfg.Places) == 0 {
		return nil, errors.New("kubeid: audience or clusters are missing")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v := &Verifier{cfg: cfg, keys: make([]keyset.Set, len(cfg.Places))}
	for i := range cfg.Places {
		v.keys[i].Fetch, v.keys[i].Now = cfg.Places[i].Keys, cfg.Now
	}
	return v, nil
}

// payload has the claims of a token that are used.
type payload struct {
	jwt.RegisteredClaims
	Bound struct {
		Namespace string `json:"namespace"`
		Pod       struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// Verify implements identity.Verifier. The machine's ID is the pod's UID, its region is the place. The key shows which
// cluster a token is from, because all clusters may use the same issuer name.
func (v *Verifier) Verify(ctx context.Context, text, _ string) (wire.Machine, error) {
	var away error
	for i := range v.cfg.Places {
		m, err := v.verifyAt(ctx, i, text)
		switch {
		case err == nil, errors.Is(err, identity.ErrInvalid) && !errors.Is(err, errOther):
			return m, err
		case errors.Is(err, identity.ErrUnavailable):
			away = err // another cluster may know it
		}
	}
	if away != nil {
		return wire.Machine{}, away
	}
	return wire.Machine{}, invalid("it is not a token of a pod in one of this broker's clusters")
}

// errOther means that a token is not from this cluster.
var errOther = errors.New("not signed with a key of this cluster")

// verifyAt checks a token with the keys of one place.
func (v *Verifier) verifyAt(ctx context.Context, i int, text string) (wire.Machine, error) {
	place := &v.cfg.Places[i]
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg()}),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(keyset.Skew), jwt.WithTimeFunc(v.cfg.Now),
	)
	var p payload
	_, err := parser.ParseWithClaims(strings.TrimSpace(text), &p, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		return v.keys[i].Key(ctx, id)
	})
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return wire.Machine{}, fmt.Errorf("%w: the keys of %s", err, place.Name)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return wire.Machine{}, invalid("it is for another address than %s", v.cfg.Audience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return wire.Machine{}, invalid("it has expired")
	case err != nil:
		return wire.Machine{}, fmt.Errorf("%w: %w", identity.ErrInvalid, errOther)
	case p.Bound.Pod.UID == "":
		return wire.Machine{}, invalid("it is not a pod's token")
	case p.Bound.Namespace != place.Namespace:
		return wire.Machine{}, invalid("its namespace is %.100q, but pods of this broker are in %s",
			p.Bound.Namespace, place.Namespace)
	}
	return wire.Machine{Cloud: Name, Region: place.Name, ID: p.Bound.Pod.UID}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", identity.ErrInvalid, fmt.Sprintf(format, args...))
}
