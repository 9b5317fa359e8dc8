package broker_test

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// overtaken is a cloud that calls meanwhile before it answers a launch.
type overtaken struct {
	*fakeCloud
	meanwhile func(cluster string)
}

func (c overtaken) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	machines, err := c.fakeCloud.Launch(ctx, spec)
	c.meanwhile(spec.Cluster)
	return machines, err
}

// TestLaunchIsReleasedWhenTaskFinishedMeanwhile: the work of a gang ends while the cloud launches one of its
// clusters. The launched machines must be released. Nothing is booked for a cluster that has already been released.
func TestLaunchIsReleasedWhenTaskFinishedMeanwhile(t *testing.T) {
	p := &agentBench{bench: newBench(t)}
	p.submit("{t: {run: x, resources: {cpus: 4}, time: 1h}}", "1")
	admitted := p.until(events.TypeTaskAdmitted)
	ctx, launches := context.Background(), 0
	for name, s := range p.cloud {
		p.b.Ports().Clouds[name] = overtaken{s, func(cluster string) {
			launches++
			err := p.b.Transactor().Transact(ctx, events.FnInterrupt, "done", false, func(u *txn.Unit) error {
				job, _, err := recordcache.Get[record.Job](u, record.JobKey(p.job))
				if err != nil {
					return err
				}
				gang, err := attempt.GangOf(u, job, 0)
				if err != nil {
					return err
				}
				return u.Apply(attempt.DecideComplete(gang[0], u.Now))
			})
			if err != nil {
				t.Fatal(err)
			}
			p.b.Functions.Handle(ctx, events.FnProvision, []events.Event{p.until(events.TypeTaskSucceeded)})
			if cl := p.cluster(cluster); cl.State != record.ClusterReleasing || len(s.clusters) > 0 {
				t.Errorf("a cluster whose work is done is %s, with %d clusters", cl.State, len(s.clusters))
			}
		}}
	}
	p.b.Functions.Handle(ctx, events.FnProvision, []events.Event{admitted})
	if launches != 1 {
		t.Fatalf("%d launches", launches)
	}
	if cl := p.cluster(record.ClusterID(p.job, 0, 1)); cl.State != record.ClusterReleasing {
		t.Errorf("its machines count as bought: it is %s", cl.State)
	}
}

// cluster returns a cluster's record.
func (p *agentBench) cluster(id string) (cl record.Cluster) {
	cl, _, err := recordcache.Get[record.Cluster](p.b.Transactor().NewUnit(context.Background(), events.FnProvision), record.ClusterKey(id))
	if err != nil {
		p.t.Fatal(err)
	}
	return cl
}
