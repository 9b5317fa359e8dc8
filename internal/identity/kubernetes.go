package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// KubernetesName is the catalogue's name of the cloud.
const KubernetesName = "kubernetes"

// KubernetesPlace is a cluster whose pods are known.
type KubernetesPlace struct {
	// KubernetesName is the region of its offers. Namespace is the namespace of its pods.
	Name, Namespace string
	// Keys reads the cluster's key set: the answer of its API server at /openid/v1/jwks.
	Keys func(ctx context.Context) ([]byte, error)
}

// KubernetesConfig says what to trust.
type KubernetesConfig struct {
	// Audience is the broker's address, as agents know it. Required.
	Audience string
	Places   []KubernetesPlace // at least one
	Now      func() time.Time  // nil means time.Now
}

// KubernetesVerifier is a Verifier that checks which pod of which cluster calls the broker, with the token of a
// service account that the kubelet created for that pod and for the broker's address (Kubernetes documentation,
// "ServiceAccount token volume projection"; the claims are from KEP-1205 and KEP-4193). It is signed with the
// cluster's keys, which its API server publishes to all service accounts (the role
// system:service-account-issuer-discovery). The account does not matter: it needs no rights, and an API server rejects
// tokens that were created for another recipient.
type KubernetesVerifier struct {
	cfg  KubernetesConfig
	keys []keySet // by place
}

var _ Verifier = (*KubernetesVerifier)(nil)

// NewKubernetes returns a verifier. It makes no requests.
func NewKubernetes(cfg KubernetesConfig) (*KubernetesVerifier, error) {
	if cfg.Audience == "" || len(cfg.Places) == 0 {
		return nil, errors.New("identity: audience or clusters are missing")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v := &KubernetesVerifier{cfg: cfg, keys: make([]keySet, len(cfg.Places))}
	for i := range cfg.Places {
		v.keys[i].Fetch, v.keys[i].Now = cfg.Places[i].Keys, cfg.Now
	}
	return v, nil
}

// payload has the claims of a token that are used.
type kubernetesPayload struct {
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
func (v *KubernetesVerifier) Verify(ctx context.Context, text, _ string) (wire.Machine, error) {
	var away error
	for i := range v.cfg.Places {
		m, err := v.verifyAt(ctx, i, text)
		switch {
		case err == nil, errors.Is(err, ErrInvalid) && !errors.Is(err, errOther):
			return m, err
		case errors.Is(err, ErrUnavailable):
			away = err // another cluster may know it
		}
	}
	if away != nil {
		return wire.Machine{}, away
	}
	return wire.Machine{}, kubernetesInvalid("it is not a token of a pod in one of this broker's clusters")
}

// errOther means that a token is not from this cluster.
var errOther = errors.New("not signed with a key of this cluster")

// verifyAt checks a token with the keys of one place.
func (v *KubernetesVerifier) verifyAt(ctx context.Context, i int, text string) (wire.Machine, error) {
	place := &v.cfg.Places[i]
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg()}),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(skew), jwt.WithTimeFunc(v.cfg.Now),
	)
	var p kubernetesPayload
	_, err := parser.ParseWithClaims(strings.TrimSpace(text), &p, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		return v.keys[i].Key(ctx, id)
	})
	switch {
	case errors.Is(err, ErrUnavailable):
		return wire.Machine{}, fmt.Errorf("%w: the keys of %s", err, place.Name)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return wire.Machine{}, kubernetesInvalid("it is for another address than %s", v.cfg.Audience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return wire.Machine{}, kubernetesInvalid("it has expired")
	case err != nil:
		return wire.Machine{}, fmt.Errorf("%w: %w", ErrInvalid, errOther)
	case p.Bound.Pod.UID == "":
		return wire.Machine{}, kubernetesInvalid("it is not a pod's token")
	case p.Bound.Namespace != place.Namespace:
		return wire.Machine{}, kubernetesInvalid("its namespace is %.100q, but pods of this broker are in %s",
			p.Bound.Namespace, place.Namespace)
	}
	return wire.Machine{Cloud: KubernetesName, Region: place.Name, ID: p.Bound.Pod.UID}, nil
}

func kubernetesInvalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
