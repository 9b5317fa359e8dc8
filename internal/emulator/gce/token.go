package gce

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// slack is the permitted deviation of a token's times from Google's clock.
const slack = 5 * time.Minute

// token exchanges a self-signed assertion for a token (RFC 7523). It does not check the key.
func (c *Cloud) token(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	why := c.untimely(r.FormValue("assertion"))
	c.mu.Unlock()
	if why != "" {
		write(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": why}, nil)
		return
	}
	write(w, http.StatusOK, map[string]any{"access_token": "emulated", "expires_in": 3600, "token_type": "Bearer"}, nil)
}

// tokenFault rejects a self-signed token whose times deviate from Google's clock. It accepts all other requests:
// those with a token that is no JSON Web Token, and those without a token.
func (c *Cloud) tokenFault(authorization string) *Fault {
	text, _ := strings.CutPrefix(authorization, "Bearer ")
	if why := c.untimely(text); why != "" {
		return &Fault{Code: http.StatusUnauthorized, Reason: "authError", Status: "UNAUTHENTICATED", Message: why}
	}
	return nil
}

// untimely returns Google's error for a token with wrong times, or "".
func (c *Cloud) untimely(text string) string {
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(text, &claims)
	if err != nil || claims.IssuedAt == nil {
		return ""
	}
	now := time.Now().Add(c.weather.skew)
	if off := now.Sub(claims.IssuedAt.Time); off > slack || off < -slack {
		return fmt.Sprintf("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "+
			"timeframe. Check your iat and exp values in the JWT claim. iat is %d, now is %d",
			claims.IssuedAt.Unix(), now.Unix())
	}
	return ""
}
