package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// userToken checks what users prove themselves with: the token in a header, or the cookie that the dashboard got for
// it.
//
// The cookie is derived from the token and is not it: browsers send cookies to every port of a host, so one that leaks
// to another program of the machine must not let it change anything. Its name is derived as well, for two brokers on
// one host not to overwrite each other's.
type userToken struct {
	sum        [sha256.Size]byte
	cookieName string
	cookie     string
}

func newUserToken(token string) userToken {
	return userToken{
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

// matches compares in a time that depends on neither token.
func (u userToken) matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], u.sum[:]) == 1
}

// hasCookie says whether a request carries the dashboard's cookie and comes from the dashboard: a browser that says
// that another page is asking is not believed.
func (u userToken) hasCookie(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	c, err := r.Cookie(u.cookieName)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(u.cookie)) == 1
}

// bearer is the token of an Authorization header, empty when there is none.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// signIn handles a visit to /?token=…: the right token gets the cookie, and either way the token is gone from the
// address bar and the history. A wrong one ends at the dashboard, which says how to sign in.
func (a *API) signIn(w http.ResponseWriter, r *http.Request) {
	if a.user.matches(r.URL.Query().Get("token")) {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure would keep it from being sent over loopback HTTP, which is what this is for
			Name: a.user.cookieName, Value: a.user.cookie, Path: "/",
			HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
