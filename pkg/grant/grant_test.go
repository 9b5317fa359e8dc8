package grant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const secretURL = "http://127.0.0.1:0/bucket/key?X-Amz-Signature=5ec2e7"

func TestGrantTextsOmitSignature(t *testing.T) {
	g := grant.Grant{Method: "GET", URL: secretURL, Header: map[string]string{"Range": "bytes=0-1"}, Expires: time.Unix(0, 0)}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.Info("granted", "grant", g)
	text := fmt.Sprintf("%v %+v %#v %s %v %v", g, g, g, g, []grant.Grant{g}, struct{ G *grant.Grant }{&g}.G) + log.String()
	if strings.Contains(text, "5ec2e7") || !strings.Contains(text, "GET http://127.0.0.1:0/bucket/key until 1970-01-01") {
		t.Error(text)
	}
	wire, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back grant.Grant
	if err := json.Unmarshal(wire, &back); err != nil || back.URL != g.URL || !back.Expires.Equal(g.Expires) {
		t.Errorf("after JSON encoding and decoding: %v, %v", back, err)
	}
}

func TestRedactKeepsCause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := grant.Grant{Method: http.MethodGet, URL: secretURL}
	req, err := g.Request(ctx, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = http.DefaultClient.Do(req)
	if err == nil || !strings.Contains(err.Error(), "5ec2e7") {
		t.Fatalf("the client's error is %v: the test needs an error with the URL", err)
	}
	clean := grant.Redact(fmt.Errorf("download: %w", err))
	if strings.Contains(clean.Error(), "5ec2e7") || !errors.Is(clean, context.Canceled) {
		t.Error(clean)
	}
	var full *url.Error
	if errors.As(clean, &full) {
		t.Errorf("the error still contains the URL: %v", full)
	}
	g.URL = "http://127.0.0.1:port/key?sig=5ec2e7"
	if _, err := g.Request(t.Context(), nil, 0); err == nil || strings.Contains(err.Error(), "5ec2e7") {
		t.Errorf("an invalid URL: %v", err)
	}
	if plain := errors.New("plain"); !errors.Is(grant.Redact(plain), plain) || grant.Redact(nil) != nil {
		t.Error("an error without a URL was changed")
	}
}

// A request must state the length of its body, because the signature includes the length. net/http would send a body
// of unknown length in chunks.
func TestRequestSetsContentLength(t *testing.T) {
	g := grant.Grant{Method: http.MethodPut, URL: secretURL, Header: map[string]string{"Content-MD5": "x"}}
	for body, size := range map[string]int64{"": 0, "four": 4} {
		req, err := g.Request(t.Context(), struct{ *strings.Reader }{strings.NewReader(body)}, size)
		if err != nil {
			t.Fatal(err)
		}
		if req.ContentLength != size || (size == 0) != (req.Body == http.NoBody) || req.Header.Get("Content-MD5") != "x" {
			t.Errorf("%q: length %d, headers %v", body, req.ContentLength, req.Header)
		}
	}
}

func TestCheckParts(t *testing.T) {
	parts, err := grant.CheckParts([]grant.Uploaded{{3, "c"}, {1, "a"}, {2, "b"}})
	if err != nil || fmt.Sprint(parts) != "[{1 a} {2 b} {3 c}]" {
		t.Errorf("%v, %v", parts, err)
	}
	for _, bad := range [][]grant.Uploaded{nil, {{0, ""}}, {{1, ""}, {1, ""}}, {{grant.MaxParts + 1, ""}}} {
		if _, err := grant.CheckParts(bad); !errors.Is(err, grant.ErrUpload) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
