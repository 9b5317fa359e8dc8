package identity_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

const kubernetesAddress = "https://broker.example.org"

// cluster signs tokens like an API server.
type cluster struct {
	*testing.T
	method jwt.SigningMethod
	key    crypto.Signer
	away   bool
	claims func(jwt.MapClaims)
	now    time.Time
}

func newCluster(t *testing.T, elliptical bool) *cluster {
	t.Helper()
	c := &cluster{T: t, now: time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)}
	var err error
	if elliptical {
		c.method = jwt.SigningMethodES256
		c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		c.method = jwt.SigningMethodRS256
		c.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// id returns the ID of the key, which is derived from the key.
func (c *cluster) id() string {
	switch k := c.key.Public().(type) {
	case *rsa.PublicKey:
		return k.N.Text(36)[:20]
	case *ecdsa.PublicKey:
		raw, err := k.Bytes()
		if err != nil {
			c.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw[1:20])
	}
	return ""
}

var errAway = errors.New("connection refused")

func (c *cluster) keys(context.Context) ([]byte, error) {
	if c.away {
		return nil, errAway
	}
	text := base64.RawURLEncoding.EncodeToString
	key := map[string]string{"use": "sig", "kid": c.id(), "alg": c.method.Alg()}
	switch k := c.key.Public().(type) {
	case *rsa.PublicKey:
		key["kty"], key["n"], key["e"] = "RSA", text(k.N.Bytes()), text(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		raw, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		key["kty"], key["crv"], key["x"], key["y"] = "EC", "P-256", text(raw[1:33]), text(raw[33:])
	}
	return json.Marshal(map[string]any{"keys": []any{key}})
}

func (c *cluster) prove(m wire.Machine, _ string) string {
	c.Helper()
	claims := jwt.MapClaims{
		"iss": "https://kubernetes.default.svc", "aud": []string{kubernetesAddress}, "iat": c.now.Unix(),
		"nbf": c.now.Unix(),
		"exp": c.now.Add(10 * time.Minute).Unix(), "sub": "system:serviceaccount:batch:default",
		"kubernetes.io": map[string]any{
			"namespace": "batch", "pod": map[string]any{"name": "tw-1-0", "uid": m.ID},
			"node": map[string]any{"name": "n", "uid": "u"}, "serviceaccount": map[string]any{"name": "default", "uid": "s"},
		},
	}
	if c.claims != nil {
		c.claims(claims)
	}
	token := jwt.NewWithClaims(c.method, claims)
	token.Header["kid"] = c.id()
	text, err := token.SignedString(c.key)
	if err != nil {
		c.Fatal(err)
	}
	return text
}

func (c *cluster) place(name string) identity.KubernetesPlace {
	return identity.KubernetesPlace{Name: name, Namespace: "batch", Keys: c.keys}
}

func kubernetesVerifier(t *testing.T, now time.Time, places ...identity.KubernetesPlace) *identity.KubernetesVerifier {
	t.Helper()
	v, err := identity.NewKubernetes(identity.KubernetesConfig{Audience: kubernetesAddress, Places: places,
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var kubernetesMachine = wire.Machine{Cloud: "kubernetes", Region: "lab", ID: "2f1c0f7a-6e2c-4b8e-9d8e-0a5f3c1b2d3e"}

func TestKubernetesConformance(t *testing.T) {
	for name, elliptical := range map[string]bool{"RSA": false, "P-256": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, elliptical)
			testConformance(t, kubernetesVerifier(t, c.now, c.place("lab")),
				cloud{Machine: kubernetesMachine, Prove: c.prove, Forge: newCluster(t, elliptical).prove})
		})
	}
}

// Two clusters have the same name of issuer. The key must decide which of them signed a token.
func TestKeyDeterminesCluster(t *testing.T) {
	work, lab := newCluster(t, false), newCluster(t, true)
	v := kubernetesVerifier(t, work.now, work.place("work"), lab.place("lab"))
	for name, c := range map[string]*cluster{"work": work, "lab": lab} {
		if m, err := v.Verify(t.Context(), c.prove(kubernetesMachine, ""), ""); err != nil || m.Region != name {
			t.Errorf("%+v, %v, want a machine of %s", m, err, name)
		}
	}
}

// A cluster does not answer. A pod must not be rejected, because that cluster may know it.
func TestUnavailableClusterIsTriedAgain(t *testing.T) {
	work, lab := newCluster(t, false), newCluster(t, false)
	work.away = true
	v := kubernetesVerifier(t, work.now, work.place("work"), lab.place("lab"))
	if m, err := v.Verify(t.Context(), lab.prove(kubernetesMachine, ""), ""); err != nil || m.Region != "lab" {
		t.Errorf("%+v, %v, want a machine of lab", m, err)
	}
	if _, err := v.Verify(t.Context(), work.prove(kubernetesMachine, ""), ""); !errors.Is(err,
		identity.ErrUnavailable) {
		t.Errorf("%v, want %v", err, identity.ErrUnavailable)
	}
	work.away = false
	if m, err := v.Verify(t.Context(), work.prove(kubernetesMachine, ""), ""); err != nil || m.Region != "work" {
		t.Errorf("%+v, %v, want a machine of work", m, err)
	}
}

func TestKubernetesVerifyRejectsOtherTokens(t *testing.T) {
	bound := func(change func(map[string]any)) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) {
			of, ok := c["kubernetes.io"].(map[string]any)
			if ok {
				change(of)
			}
		}
	}
	for name, spoil := range map[string]func(jwt.MapClaims){
		"of the API server": func(c jwt.MapClaims) { c["aud"] = []string{"https://kubernetes.default.svc"} },
		"no audience":       func(c jwt.MapClaims) { delete(c, "aud") },
		"expired":           func(c jwt.MapClaims) { c["exp"] = 1 },
		"without an expiry": func(c jwt.MapClaims) { delete(c, "exp") },
		"from the future":   func(c jwt.MapClaims) { c["iat"] = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix() },
		"of no pod":         bound(func(of map[string]any) { delete(of, "pod") }),
		"of a secret":       bound(func(of map[string]any) { of["pod"], of["secret"] = nil, map[string]any{"uid": "x"} }),
		"another namespace": bound(func(of map[string]any) { of["namespace"] = "kube-system" }),
		"of nothing":        func(c jwt.MapClaims) { delete(c, "kubernetes.io") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, false)
			c.claims = spoil
			m, err := kubernetesVerifier(t, c.now, c.place("lab")).Verify(t.Context(), c.prove(kubernetesMachine, ""),
				"")
			if !errors.Is(err, identity.ErrInvalid) || m != (wire.Machine{}) {
				t.Errorf("%+v, %v, want %v", m, err, identity.ErrInvalid)
			}
		})
	}
}

func TestNewRequiresAudienceAndCluster(t *testing.T) {
	if _, err := identity.NewKubernetes(identity.KubernetesConfig{Audience: kubernetesAddress}); err == nil {
		t.Error("New succeeded without a cluster")
	}
	if _, err := identity.NewKubernetes(identity.KubernetesConfig{Places: make([]identity.KubernetesPlace,
		1)}); err == nil {
		t.Error("New succeeded without an address")
	}
}
