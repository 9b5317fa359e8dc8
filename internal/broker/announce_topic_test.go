package broker_test

import (
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A broker without topics refuses a job that names one, instead of losing its news.
func TestSubmitRefusesTopicWithoutCloud(t *testing.T) {
	w := newBench(t)
	spec := &dag.Job{Name: "a", Announce: "pubsub://acme/jobs", Tasks: []dag.Task{{Name: "a", Run: "true", Nodes: 1}}}
	_, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	var bad *dag.Error
	if !errors.As(err, &bad) || bad.Field != "announce" || bad.Hint == "" {
		t.Errorf("%v", err)
	}
}
