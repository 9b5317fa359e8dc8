package broker_test

import (
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A broker that cannot publish to topics must refuse a job that names a topic. Otherwise the job's notifications
// would be lost.
func TestSubmitRefusesTopicWithoutCloud(t *testing.T) {
	w := newBench(t)
	spec := &dag.Job{Name: "a", Announce: "pubsub://acme/jobs", Tasks: []dag.Task{{Name: "a", Run: "true", Nodes: 1}}}
	_, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	var bad *dag.Error
	if !errors.As(err, &bad) || bad.Field != "announce" || bad.Hint == "" {
		t.Errorf("%v", err)
	}
}
