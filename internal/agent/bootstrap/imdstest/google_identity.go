package imdstest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// GoogleIssuer is the issuer of Google's identity tokens.
const GoogleIssuer = "https://accounts.google.com"

// GoogleAuthority signs identity tokens, as Google does, and serves the keys with which to check them.
type GoogleAuthority struct {
	key *rsa.PrivateKey
	id  string
}

// NewGoogleAuthority returns a new authority.
func NewGoogleAuthority() (*GoogleAuthority, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return &GoogleAuthority{key: key, id: "k" + key.N.Text(36)[:12]}, nil
}

// ServeHTTP answers with the key set (RFC 7517).
func (a *GoogleAuthority) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": a.id,
		"n": base64.RawURLEncoding.EncodeToString(a.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(a.key.E)).Bytes()),
	}}})
}

// Token returns the metadata server's identity token for an audience. With full, the token also describes the
// machine; otherwise it only names the service account. It is empty if signing fails.
func (a *GoogleAuthority) Token(m *GoogleMachine, audience string, full bool) string {
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": GoogleIssuer, "aud": audience, "azp": "112233445566778899000", "sub": "112233445566778899000",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "email": m.ServiceAccount, "email_verified": true,
	}
	if full {
		claims["google"] = map[string]any{"compute_engine": map[string]any{
			"project_id": m.Project, "project_number": 100000000001, "zone": m.Zone, "instance_id": m.ID,
			"instance_name": m.Name, "instance_creation_timestamp": now.Unix(),
		}}
	}
	return a.sign(claims)
}

// AccountToken returns a token of a service account for an audience, as Pub/Sub sends it with pushed messages. It is
// empty if signing fails.
func (a *GoogleAuthority) AccountToken(account, audience string) string {
	now := time.Now()
	return a.sign(jwt.MapClaims{
		"iss": GoogleIssuer, "aud": audience, "azp": "112233445566778899001", "sub": "112233445566778899001",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "email": account, "email_verified": true,
	})
}

func (a *GoogleAuthority) sign(claims jwt.MapClaims) string {
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"] = a.id
	text, err := t.SignedString(a.key)
	if err != nil {
		return ""
	}
	return text
}
