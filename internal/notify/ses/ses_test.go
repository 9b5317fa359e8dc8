package ses_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/awscall"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/notify/ses"
)

// The sender's identity is not verified. The emulated SES refuses the mail, and the error must have its message.
func TestSendNeedsVerifiedIdentity(t *testing.T) {
	endpoint := emulator.Moto(t)
	cfg := emulator.Config(endpoint)
	cfg.BaseEndpoint = aws.String(endpoint)
	m := ses.New(cfg, "broker@example.org")
	if err := m.Send(t.Context(), []string{"me@example.org"}, "train failed", "exit code 1"); err == nil ||
		!strings.Contains(err.Error(), "broker@example.org") {
		t.Errorf("an identity that is not verified: %v", err)
	}
	_, status, err := awscall.Do(t.Context(), cfg, cfg.Region, awscall.Call{Method: http.MethodPost, Service: "ses",
		Path: "/v2/email/identities", Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"EmailIdentity": "broker@example.org"}`)})
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v", status, err)
	}
	if err := m.Send(t.Context(), []string{"me@example.org"}, "train failed", "exit code 1"); err != nil {
		t.Error(err)
	}
}

func TestSendAsDocumented(t *testing.T) {
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + string(body)
		if !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/ses/aws4_request") {
			t.Errorf("signed as %s", r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(server.Close)
	cfg := emulator.Config(server.URL)
	cfg.BaseEndpoint = aws.String(server.URL)
	if err := ses.New(cfg, "broker@example.org").Send(t.Context(), []string{"me@example.org"}, "train failed", "exit code 1"); err != nil {
		t.Fatal(err)
	}
	const want = `POST /v2/email/outbound-emails {"FromEmailAddress":"broker@example.org",` +
		`"Destination":{"ToAddresses":["me@example.org"]},"Content":{"Simple":{` +
		`"Subject":{"Data":"train failed","Charset":"UTF-8"},"Body":{"Text":{"Data":"exit code 1","Charset":"UTF-8"}}}}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
