// Package signin authenticates users of the broker's HTTP servers: by a token in a header, or by the session of a
// dashboard. A browser gets a session for a one-time code.
//
// A session is no cookie. Browsers send cookies to every port of a host. If a user forwards another port of 127.0.0.1
// to a program, that program would get the cookie and could read all jobs. The page keeps its session in the storage
// of its own origin (scheme, host and port), and sends it in the Authorization header.
package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Token checks the credentials of users. The zero value matches nothing. Codes and sessions are derived from the token,
// so they end when the token is replaced.
type Token struct {
	sum           [sha256.Size]byte
	code, session []byte // keys
	used          *usedCodes
	now           func() time.Time
}

// How long a code and a session are valid.
const (
	CodeFor    = 10 * time.Minute
	SessionFor = 12 * time.Hour
)

// Path is the path at which the page exchanges a code for a session: POST {"code": …} -> Session.
const Path = "/signin"

// Session is the answer to a code.
type Session struct {
	Session string    `json:"session"`
	Expires time.Time `json:"expires"`
}

// New returns the check for a token.
func New(token string) Token {
	return Token{
		sum: sha256.Sum256([]byte(token)), code: derive(token, "dashboard code"),
		session: derive(token, "dashboard session"), used: &usedCodes{until: map[string]time.Time{}}, now: time.Now,
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

// Code returns a new one-time code. Every holder of the token can make codes.
func (t Token) Code() string {
	nonce := make([]byte, 12)
	_, _ = rand.Read(nonce) // never fails
	return seal(t.code, t.now().Add(CodeFor), nonce, "")
}

// SignIn returns the address that signs a browser in once, at a server.
func (t Token) SignIn(server string) string { return server + "/#code=" + t.Code() }

// redeem reports whether a code is valid and was not used before.
func (t Token) redeem(code string) bool {
	until, ok := t.open(t.code, code, "")
	return ok && t.used.add(code, until, t.now())
}

// HasSession reports whether a request has a session of the dashboard, for the host that the request names, and comes
// from that dashboard.
func (t Token) HasSession(r *http.Request) bool {
	if t.session == nil || !fromPage(r) {
		return false
	}
	_, ok := t.open(t.session, Bearer(r), r.Host)
	return ok
}

// fromPage reports whether a request comes from a page of the same origin. Browsers state this in Sec-Fetch-Site,
// except to a server without TLS that is not on this computer.
func fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "same-origin" || site == "" && r.TLS == nil && !isLoopback(r.Host)
}

func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// seal returns a text that is valid until a time, for a host.
func seal(key []byte, until time.Time, nonce []byte, host string) string {
	payload := append(binary.BigEndian.AppendUint64(nil, uint64(until.Unix())), nonce...) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(append(payload, sign(key, payload, host)...))
}

// macBytes is the size of a signature.
const macBytes = 16

func sign(key, payload []byte, host string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(payload)
	mac.Write([]byte(host))
	return mac.Sum(nil)[:macBytes]
}

// open returns until when a text that seal made is valid.
func (t Token) open(key []byte, text, host string) (until time.Time, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 8+macBytes || key == nil {
		return until, false
	}
	payload, mac := raw[:len(raw)-macBytes], raw[len(raw)-macBytes:]
	until = time.Unix(int64(binary.BigEndian.Uint64(payload)), 0) //nolint:gosec // it is signed
	return until, subtle.ConstantTimeCompare(mac, sign(key, payload, host)) == 1 && t.now().Before(until)
}

// usedCodes are the codes that were used, until they expire.
type usedCodes struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add notes a code. It returns false if it was used before.
func (u *usedCodes) add(code string, until, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for old, end := range u.until {
		if !now.Before(end) {
			delete(u.until, old)
		}
	}
	if _, used := u.until[code]; used {
		return false
	}
	u.until[code] = until
	return true
}

// Bearer returns the token of a request's Authorization header, or "".
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Visits reports whether a request is for /?token=… or Path, which ServeHTTP answers.
func Visits(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token") ||
		r.URL.Path == Path && r.Method == http.MethodPost
}

// maxCode is the maximum size of the body of a request with a code.
const maxCode = 1 << 10

// ServeHTTP exchanges a code for a session. It also redirects /?token=… to an address with a code, so that the token
// disappears from the address bar and the history. With a wrong token, the dashboard explains how to sign in.
func (t Token) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path != Path {
		to := "/"
		if t.Matches(r.URL.Query().Get("token")) {
			to = t.SignIn("")
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	var body struct {
		Code string `json:"code"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCode)).Decode(&body)
	if err != nil || !fromPage(r) || !t.redeem(body.Code) {
		http.Error(w, "the code is wrong, was used, or is older than ten minutes", http.StatusUnauthorized)
		return
	}
	until := t.now().Add(SessionFor)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Session{seal(t.session, until, nil, r.Host), until.UTC().Truncate(time.Second)})
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
