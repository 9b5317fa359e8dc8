// Package signin is how users prove themselves to a broker's HTTP servers: by a token in a header, or by the cookie
// that a browser gets for it.
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

// Token checks what users prove themselves with. The zero value matches nothing.
//
// The cookie is derived from the token and is not it: browsers send cookies to every port of a host, so one that leaks
// to another program of the machine must not let it change anything. Its name is derived as well, for two brokers on
// one host not to overwrite each other's.
type Token struct {
	sum        [sha256.Size]byte
	cookieName string
	cookie     string
}

// New makes the check of a token.
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

// Matches compares in a time that depends on neither token.
func (t Token) Matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// HasCookie says whether a request carries the dashboard's cookie and comes from the dashboard: a browser that says
// that another page is asking is not believed.
func (t Token) HasCookie(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	c, err := r.Cookie(t.cookieName)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(t.cookie)) == 1
}

// Bearer is the token of a request's Authorization header, empty when there is none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Visits says whether a request is a visit to /?token=…, which ServeHTTP answers.
func Visits(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token")
}

// ServeHTTP handles a visit to /?token=…: the right token gets the cookie, and either way the token is gone from the
// address bar and the history. A wrong one ends at the dashboard, which says how to sign in.
func (t Token) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t.Matches(r.URL.Query().Get("token")) {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure would keep it from being sent over loopback HTTP, which is what this is for
			Name: t.cookieName, Value: t.cookie, Path: "/",
			HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// Secure sets the headers that every answer has. A page may set a policy of its own.
func Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cache-Control", "no-store")
}
