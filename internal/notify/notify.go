// Package notify sends the end of a job to people: to a webhook, to the standard input of a command, or by e-mail. It
// sends each message once; whether to try again is up to the caller.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Recipient is one recipient of the end of a job.
type Recipient struct {
	Name string // for people, without secrets, such as "webhook example.org"
	Send func(context.Context, events.Event) error
}

// Mailer sends an e-mail.
type Mailer interface {
	Send(ctx context.Context, to []string, subject, text string) error
}

// Notifier sends the notifications of jobs, within the broker's permissions. The zero value posts to webhooks on the
// internet.
type Notifier struct {
	// Own is the operator's own list. It is notified of the end of every job, and its webhook may be anywhere.
	Own dag.Notify
	// Local means that the tasks of jobs run as processes of the broker's user. A notification of a job is then
	// allowed to do anything that its tasks can do: run a command, and call webhooks on this computer and in its
	// network.
	Local bool
	// Mail sends e-mail; nil if the broker cannot.
	Mail Mailer
}

// Check returns an error for a request of a job that this broker does not fulfil. It names the field of the job.
func (n *Notifier) Check(job *dag.Notify) error {
	switch {
	case job.Command != "" && !n.Local:
		return fault.Within("notify", fault.Within("command", fault.New(
			"this broker runs no commands of jobs, as they are not those of its operator",
			"use webhook, or ask the operator to set notify in the configuration of the broker")))
	case len(job.Email) > 0 && n.Mail == nil:
		return fault.Within("notify", fault.Within("email", fault.New("this broker cannot send e-mail",
			"use webhook, or give the broker a sender: `tradewind cloud add aws --mail-from ADDRESS` for "+
				"`tradewind up --clouds aws`, `tradewind deploy aws --mail-from ADDRESS` for a deployment")))
	}
	return nil
}

// Recipients returns those of a job, and the operator's.
func (n *Notifier) Recipients(job *dag.Notify) []Recipient {
	public := http.DefaultTransport
	if !n.Local {
		public = publicTransport
	}
	return append(n.of("", job, public), n.of("the broker's ", &n.Own, http.DefaultTransport)...)
}

func (n *Notifier) of(whose string, l *dag.Notify, by http.RoundTripper) (all []Recipient) {
	if l.Webhook != "" {
		client := &http.Client{Transport: by, Timeout: webhookWithin}
		all = append(all, Recipient{whose + "webhook " + hostOf(l.Webhook),
			func(ctx context.Context, e events.Event) error { return Post(ctx, client, l.Webhook, e) }})
	}
	if l.Command != "" {
		all = append(all, Recipient{whose + "command",
			func(ctx context.Context, e events.Event) error { return run(ctx, l.Command, e) }})
	}
	if len(l.Email) > 0 {
		all = append(all, Recipient{whose + "e-mail to " + strings.Join(l.Email, ", "),
			func(ctx context.Context, e events.Event) error { return n.mail(ctx, l.Email, e) }})
	}
	return all
}

// hostOf returns the host of a URL; the rest may contain a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

const webhookWithin = 10 * time.Second

// Post posts an event to a webhook in structured mode (HTTP Protocol Binding for CloudEvents 1.0, section 3.2). Its
// errors do not contain the URL.
func Post(ctx context.Context, by *http.Client, to string, e events.Event) error {
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	res, err := by.Do(req)
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only its status matters
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode >= http.StatusMultipleChoices {
		return errors.New(res.Status)
	}
	return nil
}

// publicTransport connects only to public addresses, so that a job cannot make its broker call a service of the
// broker's own network, such as the metadata service of its machine. It checks the address after the name is resolved.
var publicTransport = &http.Transport{
	DialContext: (&net.Dialer{Timeout: webhookWithin, Control: onlyPublic}).DialContext,
}

func onlyPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := at.Addr().Unmap(); !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip) {
		return fmt.Errorf("%s is not a public address, and this broker posts for jobs only to those", ip)
	}
	return nil
}

var shared = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598

// How long a command may run, and how long its children may keep its output open after that.
const (
	commandWithin = time.Minute
	childrenEnd   = time.Second
)

// run runs a command with the event on its standard input. The error contains the end of the command's error output.
func run(ctx context.Context, command string, e events.Event) error {
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command) //nolint:gosec // of the operator, or of a local job
	c.WaitDelay = childrenEnd
	c.Stdin = bytes.NewReader(append(body, '\n'))
	var said bytes.Buffer
	c.Stderr = &said
	c.Env = os.Environ()
	if d, ok := e.Data.(events.DAGFinished); ok {
		for _, v := range [][2]string{{"TRADEWIND_JOB", d.Job}, {"TRADEWIND_NAME", d.Name},
			{"TRADEWIND_OUTCOME", d.Outcome}, {"TRADEWIND_REASON", d.Reason},
			{"TRADEWIND_USD", strconv.FormatFloat(d.USD, 'f', -1, 64)}} {
			c.Env = append(c.Env, v[0]+"="+v[1])
		}
	}
	err = c.Run()
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("it did not end within %s", commandWithin)
	}
	if err == nil {
		return nil
	}
	if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); lines[0] != "" {
		err = fmt.Errorf("%w: %s", err, tail(lines[len(lines)-1]))
	}
	return err
}

// maxSaid is the number of bytes of a command's error that are kept.
const maxSaid = 200

func tail(line string) string { return strings.ToValidUTF8(line[max(0, len(line)-maxSaid):], "?") }

func (n *Notifier) mail(ctx context.Context, to []string, e events.Event) error {
	if n.Mail == nil {
		return errors.New("the broker cannot send e-mail any more")
	}
	text, err := json.MarshalIndent(e.Data, "", "  ")
	if err != nil {
		return err
	}
	subject := "Tradewind: " + e.Type()
	if d, ok := e.Data.(events.DAGFinished); ok {
		subject = fmt.Sprintf("Tradewind: %s %s", d.Name, d.Outcome)
	}
	return n.Mail.Send(ctx, to, subject, string(text)+"\n")
}
