// Package signin authenticates users of the broker's HTTP servers, by a token in a header or by the cookie that a
// browser gets for it.
package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// Token checks the credentials of users. The zero value matches nothing.
//
// The cookie is derived from the token: browsers send cookies to every port of a host, so a cookie that leaks to
// another program on the machine must not permit changes. The cookie's name is derived as well, so that two brokers on
// one host do not overwrite each other's cookie.
type Token struct {
	sum        [sha256.Size]byte
	cookieName string
	cookie     string
}

// New returns the check for a token.
func New(token string) Token {
	return Token{
		sum:        sha256.Sum256([]byte(token)),
		cookieName: "tradewind_" + hex.EncodeToString(derive(token, "dashboard cookie name"))[:12],
		cookie:     base64.RawURLEncoding.EncodeToString(derive(token, "dashboard cookie")),
	}
}

func derive(token, purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// Matches reports whether token is the user token, in constant time.
func (t Token) Matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// HasCookie reports whether a request has the dashboard's cookie and comes from the dashboard. It rejects requests that
// the browser marks as coming from another site.
func (t Token) HasCookie(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	c, err := r.Cookie(t.cookieName)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(t.cookie)) == 1
}

// Bearer returns the token of a request's Authorization header, or "".
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Visits reports whether a request is for /?token=…, which ServeHTTP answers.
func Visits(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token")
}

// ServeHTTP handles /?token=…. It sets the cookie if the token is right. In any case it redirects, so that the token
// disappears from the address bar and the history. With a wrong token, the dashboard explains how to sign in.
func (t Token) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t.Matches(r.URL.Query().Get("token")) {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // with Secure it would not be sent over loopback HTTP, which must work
			Name: t.cookieName, Value: t.cookie, Path: "/",
			HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// Secure sets the headers of every response. A page may set its own policy.
func Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cache-Control", "no-store")
}
