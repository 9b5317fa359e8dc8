package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// GoogleName is the catalogue's name of the cloud.
const GoogleName = "gcp"

// Google's addresses.
const (
	GoogleIssuer = "https://accounts.google.com"
	GoogleKeys   = "https://www.googleapis.com/oauth2/v3/certs"
)

// GoogleConfig says what to trust.
type GoogleConfig struct {
	// Audience is the broker's address, as agents know it. Required.
	Audience string
	// GoogleIssuer and GoogleKeys, the URL of a JSON Web Key Set, default to Google's.
	Issuer, Keys string
	Client       *http.Client     // fetches the keys; nil means a new client
	Now          func() time.Time // nil means time.Now
}

// GoogleVerifier is a Verifier of the identity tokens of Compute Engine (Compute Engine documentation, "Verify the
// identity of VMs"): JSON Web Tokens for the broker's address, signed by one of Google's keys, which are fetched and
// cached. A machine has such tokens only with a service account; the account needs no role.
type GoogleVerifier struct {
	cfg  GoogleConfig
	keys keySet // Google changes its keys within days
}

var _ Verifier = (*GoogleVerifier)(nil)

// NewGoogle returns a verifier. It makes no requests.
func NewGoogle(cfg GoogleConfig) (*GoogleVerifier, error) {
	if cfg.Audience == "" {
		return nil, errors.New("identity: no audience")
	}
	if cfg.Issuer == "" {
		cfg.Issuer = GoogleIssuer
	}
	if cfg.Keys == "" {
		cfg.Keys = GoogleKeys
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: fetchLimit}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v := &GoogleVerifier{cfg: cfg}
	v.keys.Fetch, v.keys.Now = v.fetch, cfg.Now
	return v, nil
}

// payload has those claims of a token that Verify uses. Google includes them if the token was requested with
// format=full.
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

// Verify implements identity.Verifier. The machine's ID is Google's numeric instance ID.
func (v *GoogleVerifier) Verify(ctx context.Context, text, _ string) (wire.Machine, error) {
	var p payload
	if err := v.parse(ctx, text, &p); err != nil {
		return wire.Machine{}, err
	}
	m := p.Google.Machine
	if m.ID == "" || m.Project == "" || m.Zone == "" {
		return wire.Machine{}, googleInvalid("it does not name a machine")
	}
	region := m.Zone
	if i := strings.LastIndexByte(region, '-'); i > 0 {
		region = region[:i]
	}
	return wire.Machine{Cloud: GoogleName, Account: m.Project, Region: region, ID: m.ID}, nil
}

// Account returns the email address of the service account of a token. A push of Pub/Sub has the account that its
// subscription names (Pub/Sub documentation, "Authentication for push subscriptions"). It fails like Verify.
func (v *GoogleVerifier) Account(ctx context.Context, text string) (string, error) {
	var p struct {
		jwt.RegisteredClaims
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := v.parse(ctx, text, &p); err != nil {
		return "", err
	}
	if p.Email == "" || !p.Verified {
		return "", googleInvalid("it does not name a service account")
	}
	return p.Email, nil
}

// parse checks a token's signature, issuer, audience and times, and reads its claims.
func (v *GoogleVerifier) parse(ctx context.Context, text string, p jwt.Claims) error {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithIssuer(v.cfg.Issuer),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(skew),
		jwt.WithTimeFunc(v.cfg.Now),
	)
	_, err := parser.ParseWithClaims(strings.TrimSpace(text), p, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		return v.keys.Key(ctx, id)
	})
	switch {
	case errors.Is(err, ErrUnavailable):
		return err
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return googleInvalid("it is for another address than %s", v.cfg.Audience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return googleInvalid("it has expired")
	case err != nil:
		return googleInvalid("it is not an identity token of %s", v.cfg.Issuer)
	}
	return nil
}

// fetch reads the key set.
func (v *GoogleVerifier) fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.cfg.Keys, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := v.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeyBytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", v.cfg.Keys, res.Status)
	}
	return body, nil
}

func googleInvalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
