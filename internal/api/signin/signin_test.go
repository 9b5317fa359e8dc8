package signin

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestCodesAndSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := New("the-token-of-a-broker")
		redeem := func(code string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1234"+Path, bytes.NewBufferString(`{"code":"`+code+`"}`))
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			w := httptest.NewRecorder()
			user.ServeHTTP(w, r)
			return w
		}
		early, late := user.Code(), user.Code()
		time.Sleep(CodeFor - time.Second)
		if w := redeem(early); w.Code != http.StatusOK {
			t.Fatalf("a code of nearly ten minutes: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := redeem(late); w.Code != http.StatusUnauthorized {
			t.Errorf("a code of ten minutes: %d", w.Code)
		}
		if len(user.used.until) != 1 {
			t.Errorf("%d used codes are kept", len(user.used.until))
		}
		redeem(user.Code())
		if len(user.used.until) != 1 {
			t.Errorf("%d used codes are kept, with one that has expired", len(user.used.until))
		}
		until := time.Now().Add(SessionFor)
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1234/v1/jobs", nil)
		r.Header.Set("Authorization", "Bearer "+seal(user.session, until, nil, r.Host))
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if !user.HasSession(r) {
			t.Error("a new session is refused")
		}
		time.Sleep(SessionFor)
		if user.HasSession(r) {
			t.Error("a session of twelve hours is accepted")
		}
	})
}

// Browsers send Sec-Fetch-Site only to servers with TLS or on the same computer. A page of another computer must work
// without it.
func TestPageOfAnotherComputerNeedsNoFetchMetadata(t *testing.T) {
	user := New("the-token-of-a-broker")
	for host, want := range map[string]bool{"broker.lan:8080": true, "127.0.0.1:8080": false, "[::1]:8080": false, "localhost": false, "x.localhost:1": false} {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/v1/jobs", nil)
		r.Header.Set("Authorization", "Bearer "+seal(user.session, time.Now().Add(time.Hour), nil, r.Host))
		if got := user.HasSession(r); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	if (Token{}).HasSession(httptest.NewRequest(http.MethodGet, "/", nil)) {
		t.Error("the zero value accepts a session")
	}
}
