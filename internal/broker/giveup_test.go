package broker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// twofold is a cloud whose first launch succeeds and whose later launches fail. The answer to the first launch is
// delayed: meanwhile another delivery of the same event fails in its last try, and is about to terminate the machines
// that it may have bought.
type twofold struct {
	*fakeCloud
	other             func()
	launches          atomic.Int32
	waiting, answered chan struct{}
	stops             atomic.Int32
}

func (c *twofold) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if c.launches.Add(1) > 1 {
		return nil, cloud.Errorf(c.name, cloud.Transient, "Internal", "try again")
	}
	machines, err := c.fakeCloud.Launch(ctx, spec)
	go c.other()
	<-c.waiting
	return machines, err
}

func (c *twofold) Terminate(ctx context.Context, cluster string) error {
	if c.stops.Add(1) == 1 {
		close(c.waiting)
		<-c.answered
	}
	return c.fakeCloud.Terminate(ctx, cluster)
}

func TestLaunchIsReleasedWhenGivenUpMeanwhile(t *testing.T) {
	cfg := config.Default()
	cfg.LaunchTries = 1
	w := newBenchOf(t, cfg)
	spec, err := read.Job("one.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: one\ntasks: {t: {run: x, resources: {cpus: 4}, time: 1h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	admitted := w.until(events.TypeTaskAdmitted)
	handle := func() { w.b.Functions.Handle(context.Background(), events.FnProvision, []events.Event{admitted}) }
	for name, s := range w.cloud {
		c := &twofold{fakeCloud: s, waiting: make(chan struct{}), answered: make(chan struct{})}
		done := make(chan struct{})
		c.other = func() { defer close(done); handle() }
		w.b.Ports().Clouds[name] = c
		defer func() {
			if c.launches.Load() > 0 {
				<-done
			}
		}()
	}
	handle()
	d, err := w.b.Views.JobDetail(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.b.Ports().Clouds {
		if c, ok := c.(*twofold); ok {
			close(c.answered)
		}
	}
	if got := d.Attempts[0].Outcome; got != apitypes.OutcomeRefused {
		t.Errorf("the attempt is %q, though its machines are being terminated", got)
	}
}
