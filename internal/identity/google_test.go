package identity_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

const address = "https://broker.example.com"

// googleIssuer simulates Google: a key, and the server that publishes it.
type googleIssuer struct {
	testing.TB
	key    *rsa.PrivateKey
	id     string
	url    string
	down   atomic.Bool
	asked  atomic.Int32
	clock  *clock.Manual
	claims func(jwt.MapClaims)
}

func googleNewIssuer(t testing.TB) *googleIssuer {
	t.Helper()
	i := &googleIssuer{TB: t, id: "k1", clock: clock.NewManual(time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC))}
	i.renew("k1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{
			{"kty": "EC", "kid": "other"}, {"kty": "RSA", "kid": i.id, "alg": "RS256", "use": "sig",
				"n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()),
				"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(i.key.E)).Bytes())},
		}})
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *googleIssuer) renew(id string) {
	i.Helper()
	var err error
	if i.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		i.Fatal(err)
	}
	i.id = id
}

func (i *googleIssuer) verifier() *identity.GoogleVerifier {
	i.Helper()
	v, err := identity.NewGoogle(identity.GoogleConfig{Audience: address, Issuer: "https://issuer", Keys: i.url,
		Now: i.clock.Now})
	if err != nil {
		i.Fatal(err)
	}
	return v
}

func (i *googleIssuer) prove(m wire.Machine, _ string) string {
	i.Helper()
	claims := jwt.MapClaims{
		"iss": "https://issuer", "aud": address, "iat": i.clock.Now().Unix(), "exp": i.clock.Now().Add(time.Hour).Unix(),
		"google": map[string]any{"compute_engine": map[string]any{
			"project_id": m.Account, "project_number": 7, "zone": m.Region + "-b", "instance_id": m.ID, "instance_name": "x",
		}},
	}
	if i.claims != nil {
		i.claims(claims)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	token.Header["kid"] = i.id
	text, err := token.SignedString(i.key)
	if err != nil {
		i.Fatal(err)
	}
	return text
}

var googleMachine = wire.Machine{Cloud: "gcp", Account: "my-project", Region: "europe-west4", ID: "4567890123456789012"}

func TestGoogleConformance(t *testing.T) {
	i := googleNewIssuer(t)
	testConformance(t, i.verifier(), cloud{Machine: googleMachine, Prove: i.prove, Forge: googleNewIssuer(t).prove})
}

func TestVerifyRejectsOtherTokens(t *testing.T) {
	for name, spoil := range map[string]func(jwt.MapClaims){
		"another address": func(c jwt.MapClaims) { c["aud"] = "https://other.example.com" },
		"another issuer":  func(c jwt.MapClaims) { c["iss"] = "https://accounts.google.com" },
		"expired":         func(c jwt.MapClaims) { c["exp"] = 1 },
		"no expiry":       func(c jwt.MapClaims) { delete(c, "exp") },
		"no machine":      func(c jwt.MapClaims) { delete(c, "google") },
	} {
		i := googleNewIssuer(t)
		i.claims = spoil
		if m, err := i.verifier().Verify(t.Context(), i.prove(googleMachine, ""), ""); !errors.Is(err,
			identity.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// A token names another algorithm: no signature ("none"), or an HMAC with the public key as its secret. It must be
// refused.
func TestVerifyFixesAlgorithm(t *testing.T) {
	i := googleNewIssuer(t)
	genuine := strings.Split(i.prove(googleMachine, ""), ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + "." + genuine[1] + "."
	if m, err := i.verifier().Verify(t.Context(), none, ""); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestKeysAreCachedAndRefreshed(t *testing.T) {
	i := googleNewIssuer(t)
	v := i.verifier()
	check := func(what string, want error, asked int32) {
		t.Helper()
		if _, err := v.Verify(t.Context(), i.prove(googleMachine, ""), ""); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if n := i.asked.Load(); n != asked {
			t.Errorf("%s: %d requests to Google, want %d", what, n, asked)
		}
	}
	i.down.Store(true)
	check("while the keys are not available", identity.ErrUnavailable, 1)
	i.down.Store(false)
	check("when they are available", nil, 2)
	check("a second time", nil, 2)
	i.renew("k2")
	check("a new key, immediately", identity.ErrInvalid, 2)
	i.clock.Advance(2 * time.Minute)
	check("a new key, later", nil, 3)
	i.clock.Advance(2 * time.Hour)
	i.down.Store(true)
	check("an old key, while no others are available", nil, 4)
}

func FuzzGoogleVerify(f *testing.F) {
	i := googleNewIssuer(f)
	v := i.verifier()
	f.Add(googleNewIssuer(f).prove(googleMachine, ""))
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := v.Verify(t.Context(), text, ""); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
