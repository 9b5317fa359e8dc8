package notify_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

var end = events.New("e1", "test", time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), events.DAGFinished{
	Job: "train-4k7q2a", Name: "train", Outcome: "failed", Reason: "exit code 1", USD: 1.5,
})

// send notifies all recipients, and returns the errors by recipient.
func send(t *testing.T, n notify.Notifier, job dag.Notify) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range n.Recipients(&job) {
		out[r.Name] = ""
		if err := r.Send(t.Context(), end); err != nil {
			out[r.Name] = err.Error()
		}
	}
	return out
}

// posts serves a webhook, and returns its URL and the bodies that it received.
func posts(t *testing.T, status int) (url string, bodies *[]string) {
	t.Helper()
	bodies = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, r.Header.Get("Content-Type")+" "+string(body))
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/secret", bodies
}

func TestWebhookGetsEvent(t *testing.T) {
	url, bodies := posts(t, http.StatusOK)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/secret")
	got := send(t, notify.Notifier{Local: true}, dag.Notify{Webhook: url})
	if err, told := got["webhook "+host]; !told || err != "" {
		t.Fatal(got)
	}
	want, err := end.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if len(*bodies) != 1 || (*bodies)[0] != "application/cloudevents+json "+string(want) {
		t.Errorf("it received %q", *bodies)
	}
	url, _ = posts(t, http.StatusServiceUnavailable)
	for name, err := range send(t, notify.Notifier{Local: true}, dag.Notify{Webhook: url}) {
		if err != "503 Service Unavailable" {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// The webhook of a job must have a public address, because the broker of an operator must not give other users a way
// into the operator's network. The operator's own webhook may be in that network.
func TestWebhookOfJobIsPublic(t *testing.T) {
	url, bodies := posts(t, http.StatusOK)
	for name, err := range send(t, notify.Notifier{}, dag.Notify{Webhook: url}) {
		if !strings.Contains(err, "127.0.0.1 is not a public address") || strings.Contains(err, "secret") {
			t.Errorf("%s: %q", name, err)
		}
	}
	for _, there := range []string{"http://169.254.169.254/", "http://[::1]:1/", "http://10.1.2.3/",
		"http://[::ffff:192.168.0.1]/", "http://100.64.0.1/", "http://0.0.0.0/"} {
		for name, err := range send(t, notify.Notifier{}, dag.Notify{Webhook: there}) {
			if !strings.Contains(err, "is not a public address") {
				t.Errorf("%s: %q", name, err)
			}
		}
	}
	if len(*bodies) != 0 {
		t.Errorf("it received %q", *bodies)
	}
	for name, err := range send(t, notify.Notifier{Own: dag.Notify{Webhook: url}}, dag.Notify{}) {
		if err != "" || !strings.HasPrefix(name, "the broker's webhook ") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

func TestCommandGetsEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "told")
	command := `cat >` + file + `; echo "$TRADEWIND_JOB $TRADEWIND_NAME $TRADEWIND_OUTCOME $TRADEWIND_REASON $TRADEWIND_USD" >>` + file
	if got := send(t, notify.Notifier{Local: true}, dag.Notify{Command: command}); got["command"] != "" || len(got) != 1 {
		t.Fatal(got)
	}
	body, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	want, err := end.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if string(body) != string(want)+"\ntrain-4k7q2a train failed exit code 1 1.5\n" {
		t.Errorf("it got %s", body)
	}
	got := send(t, notify.Notifier{Local: true}, dag.Notify{Command: "echo usage >&2; echo no such channel >&2; exit 3"})
	if got["command"] != "exit status 3: no such channel" {
		t.Errorf("%q", got)
	}
}

// mailbox is a Mailer.
type mailbox []string

func (m *mailbox) Send(_ context.Context, to []string, subject, text string) error {
	*m = append(*m, strings.Join(to, " ")+": "+subject+": "+text)
	return nil
}

func TestMailSaysWhatHappened(t *testing.T) {
	var m mailbox
	got := send(t, notify.Notifier{Mail: &m}, dag.Notify{Email: []string{"a@example.org", "b@example.org"}})
	if len(got) != 1 || len(m) != 1 || !strings.HasPrefix(m[0], "a@example.org b@example.org: Tradewind: train failed: ") ||
		!strings.Contains(m[0], `"reason": "exit code 1"`) {
		t.Errorf("%q %q", got, m)
	}
}

func TestCheckRefusesWhatBrokerCannotDo(t *testing.T) {
	for _, c := range []struct {
		n     notify.Notifier
		job   dag.Notify
		field string
	}{
		{notify.Notifier{}, dag.Notify{Webhook: "https://example.org"}, ""},
		{notify.Notifier{}, dag.Notify{Command: "true"}, "notify.command"},
		{notify.Notifier{Local: true}, dag.Notify{Command: "true"}, ""},
		{notify.Notifier{Local: true}, dag.Notify{Email: []string{"a@example.org"}}, "notify.email"},
		{notify.Notifier{Mail: &mailbox{}}, dag.Notify{Email: []string{"a@example.org"}}, ""},
	} {
		got := new(fault.Error)
		if err := c.n.Check(&c.job); err != nil && !errors.As(err, &got) || got.Field != c.field {
			t.Errorf("%+v: %q, not %q", c.job, got.Field, c.field)
		}
	}
}
