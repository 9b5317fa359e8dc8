package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// news is a hook and a notifier. It records the notified recipients, and fails for those in broken.
type news struct {
	told   []string
	end    events.Event
	broken map[string]bool
}

func (n *news) send(to string) error {
	n.told = append(n.told, to)
	if n.broken[to] {
		return errors.New("no answer")
	}
	return nil
}

func (n *news) Notify(_ context.Context, e events.Event) error {
	if e.Type() != events.TypeDAGFinished {
		return nil
	}
	n.end = e
	return n.send("host")
}

func (n *news) Check(l *dag.Notify) error {
	if l.Command != "" {
		return &dag.Error{Field: "notify.command", Reason: "no commands"}
	}
	return nil
}

func (n *news) Recipients(l *dag.Notify) (all []notify.Recipient) {
	for _, to := range append(slices.Clone(l.Email), l.Webhook) {
		if to != "" {
			all = append(all, notify.Recipient{Name: to, Send: func(context.Context, events.Event) error { return n.send(to) }})
		}
	}
	return all
}

// A job ends, and some of its recipients cannot be notified at first. The event must be delivered again until each
// recipient is notified, each of them once. The job's history names the recipients that could not be notified. The
// job does not wait for any of this.
func TestJobNotifiesEachRecipientOnce(t *testing.T) {
	w := newBench(t)
	w.news.broken = map[string]bool{"https://down": true}
	spec := &dag.Job{Name: "a", Notify: dag.Notify{Webhook: "https://down", Email: []string{"me@example.org"}},
		Tasks: []dag.Task{{Name: "a", Run: "true", Nodes: 1}}}
	job, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	w.work() // the first delivery
	e := w.news.end
	if e.ID == "" {
		t.Fatal("the job has not finished")
	}
	notified := func() (texts []string) {
		story, err := w.b.Views.Explain(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range story.Entries {
			if e.Kind == "notified" {
				texts = append(texts, e.Text)
			}
		}
		slices.Sort(texts)
		return texts
	}
	if err := w.handle(t.Context(), events.FnHook, e); err == nil {
		t.Error("no error although a recipient does not answer")
	}
	if got := notified(); !slices.Equal(got,
		[]string{"https://down could not be notified in 2 attempts, the last: no answer", "me@example.org"}) {
		t.Errorf("the story says %q", got)
	}
	w.news.broken = nil
	for range 2 { // no recipient is notified again if the event is delivered again
		if err := w.handle(t.Context(), events.FnHook, e); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(w.news.told, " "); got != "host me@example.org https://down https://down https://down" {
		t.Errorf("notified: %s", got)
	}
	if got := notified(); !slices.Equal(got, []string{"https://down", "me@example.org"}) {
		t.Errorf("the story says %q", got)
	}
}

func TestSubmitRefusesRecipientsOfOtherBrokers(t *testing.T) {
	w := newBench(t)
	spec := &dag.Job{Name: "a", Notify: dag.Notify{Command: "true"}, Tasks: []dag.Task{{Name: "a", Run: "true", Nodes: 1}}}
	_, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	var bad *dag.Error
	if !errors.As(err, &bad) || bad.Field != "notify.command" {
		t.Errorf("%v", err)
	}
}
