package granttest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const lasting = 10 * time.Minute

// uri returns the URI of an object that no other test uses.
func (s *suite) uri(t *testing.T, name string) string {
	t.Helper()
	s.made++
	o, err := grant.Parse(fmt.Sprintf("%s%d/x", s.Prefix, s.made))
	if err != nil {
		t.Fatal(err)
	}
	o.Key = strings.TrimSuffix(o.Key, "x") + name
	return o.String()
}

func sign(t *testing.T, store grant.Store, w grant.Want) grant.Grant {
	t.Helper()
	if w.For == 0 {
		w.For = lasting
	}
	grants, err := store.Sign(t.Context(), w)
	if err != nil {
		t.Fatalf("sign %s of %s: %v", w.Op, w.URI, err)
	}
	if len(grants) != 1 {
		t.Fatalf("%d grants for one want", len(grants))
	}
	return grants[0]
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// do sends the granted request like any client: the method, the URL, the headers and the body.
func do(t *testing.T, g grant.Grant, body []byte) answer {
	t.Helper()
	req, err := g.Request(t.Context(), bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	// Without compression, which a client requests by default, and without following redirects.
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(grant.Redact(err))
	}
	defer resp.Body.Close() //nolint:errcheck // read
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(grant.Redact(err))
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: read}
}

func mustDo(t *testing.T, g grant.Grant, body []byte) answer {
	t.Helper()
	a := do(t, g, body)
	if !a.ok() {
		t.Fatalf("%v: %d %s", g, a.status, a.body)
	}
	return a
}

// refused fails unless the server rejected the request. A server error is not a rejection.
func refused(t *testing.T, what string, a answer) {
	t.Helper()
	if a.status < 400 || a.status >= 500 {
		t.Errorf("%s: status %d, want 4xx: %.300s", what, a.status, a.body)
	}
}

func (s *suite) put(t *testing.T, uri string, body []byte) {
	t.Helper()
	mustDo(t, sign(t, s.store, grant.Want{Op: grant.Put, URI: uri, Size: int64(len(body))}), body)
}

func (s *suite) get(t *testing.T, uri string) answer {
	t.Helper()
	return do(t, sign(t, s.store, grant.Want{Op: grant.Get, URI: uri}), nil)
}

// holds fails unless the object has these bytes.
func (s *suite) holds(t *testing.T, uri string, want []byte) {
	t.Helper()
	a := s.get(t, uri)
	if !a.ok() || !bytes.Equal(a.body, want) {
		t.Errorf("%s: status %d, %d bytes %.80q; want %d bytes %.80q", uri, a.status, len(a.body), a.body,
			len(want), want)
	}
}

// absent fails unless there is no such object.
func (s *suite) absent(t *testing.T, uri string) {
	t.Helper()
	if a := s.get(t, uri); a.status != http.StatusNotFound {
		t.Errorf("%s: status %d, want 404", uri, a.status)
	}
}
