package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// unreachable is a cloud that counts calls of Terminate, and fails them with err.
type unreachable struct {
	*fakeCloud
	calls int
	err   error
}

func (c *unreachable) Terminate(ctx context.Context, cluster string) error {
	c.calls++
	if c.err != nil {
		return c.err
	}
	return c.fakeCloud.Terminate(ctx, cluster)
}

// A cloud does not answer, and several events request the release of the same cluster. Only the first event must call
// the cloud again, until reconcile replaces it.
func TestOneEventRepeatsFailedRelease(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	cluster := record.ClusterID(p.job, 0, 1)
	ports := p.b.Ports()
	at := &unreachable{err: errors.New("the credentials were not accepted")}
	for name, c := range p.cloud {
		if len(c.clusters) > 0 {
			at.fakeCloud, ports.Clouds[name] = c, at
		}
	}
	b := broker.New(config.Default(), ports)
	release := func(id string) string {
		t.Helper()
		before := at.calls
		errs := b.Functions.Handle(t.Context(), events.FnProvision, []events.Event{
			events.New(id, "test", p.now, events.ClusterRelease{Cluster: cluster, Job: p.job}),
		})
		return fmt.Sprintf("%d calls, fails: %v", at.calls-before, errs[0] != nil)
	}
	expect := func(when, event, want string) {
		t.Helper()
		if got := release(event); got != want {
			t.Errorf("%s, event %s: %s, want %s", when, event, got, want)
		}
	}
	expect("at first", "a", "1 calls, fails: true")
	expect("beside a", "b", "0 calls, fails: false")
	expect("at first", "a", "1 calls, fails: true")
	p.now = p.now.Add(config.Default().StuckFor + time.Second)
	expect("a long time later", "b", "1 calls, fails: true")
	expect("beside b", "a", "0 calls, fails: false")
	// Reconcile repeats the release with a new event.
	cl := stored[record.Cluster](p, "cluster#"+cluster)
	cl.Releaser = ""
	p.write(string(record.JobPart(p.job)), "cluster#"+cluster, cl)
	expect("after reconcile", "c", "1 calls, fails: true")
	at.err = nil
	expect("beside c", "b", "0 calls, fails: false")
	expect("when the cloud answers", "c", "1 calls, fails: false")
	if len(at.clusters) != 0 {
		t.Errorf("machines of %v still run", at.clusters)
	}
}
