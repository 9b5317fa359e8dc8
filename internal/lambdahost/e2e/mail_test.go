package e2e_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/awscall"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

const mailed = `apiVersion: tradewind/v1
name: mailed
notify: {email: [me@example.org]}
tasks:
  only: {run: "true", time: 10m}
`

// ses calls the emulated Simple Email Service.
func (w *world) ses(ctx context.Context, path, contentType, body string) []byte {
	w.Helper()
	answer, status, err := awscall.Do(ctx, w.cfg, w.cfg.Region, awscall.Call{Method: http.MethodPost, Service: "ses", Host: "email",
		Path: path, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)})
	if err != nil || status != http.StatusOK {
		w.Fatalf("SES: %d %v %s", status, err, answer)
	}
	return answer
}

// sent is the number of messages that the account has sent.
func (w *world) sent(ctx context.Context) (n float64) {
	w.Helper()
	var quota struct {
		Sent float64 `xml:"GetSendQuotaResult>SentLast24Hours"`
	}
	answer := w.ses(ctx, "/", "application/x-www-form-urlencoded", "Action=GetSendQuota&Version=2010-12-01")
	if err := xml.Unmarshal(answer, &quota); err != nil {
		w.Fatal(err)
	}
	return quota.Sent
}

// A deployment with a sender sends the e-mail that a job asks for, once.
func TestDeploymentSendsMailOfJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	const sender = "broker@deployment.example.org"
	w := deployWith(t, nil, []string{lambdahost.EnvMailFrom + "=" + sender})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	w.ses(ctx, "/v2/email/identities", "application/json", fmt.Sprintf(`{"EmailIdentity": %q}`, sender))
	before := w.sent(ctx)
	id := w.submit(ctx, mailed)
	if status, answer := w.request(ctx, http.MethodPost, "/v1/jobs/"+id+"/cancel", signed); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	w.quiet(ctx)
	if story := w.text(ctx, "/v1/jobs/"+id+"/explain"); !strings.Contains(story, "e-mail to me@example.org") {
		t.Errorf("the history is %s\n%s", story, w.log.String())
	}
	if n := w.sent(ctx) - before; n != 1 {
		t.Errorf("%v messages\n%s", n, w.log.String())
	}
}

// A job that asks for e-mail is refused, with the field, by a deployment without a sender.
func TestDeploymentWithoutSenderRefusesMail(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	status, answer := w.trySubmit(t.Context(), mailed)
	if status != http.StatusUnprocessableEntity || !strings.Contains(string(answer), "deploy aws --mail-from") ||
		!strings.Contains(string(answer), `"field":"notify.email"`) {
		t.Errorf("%d %s", status, answer)
	}
}
