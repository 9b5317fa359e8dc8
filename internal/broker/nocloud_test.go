package broker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

const lonely = "{t: {run: x, resources: {cpus: 4}, time: 1h}}"

// without removes the cloud of a cluster from the broker. It returns the cloud's name and a function that restores
// the cloud.
func (p *agentBench) without(cluster string) (name string, back func()) {
	name = p.cluster(cluster).Offer.Cloud
	c := p.b.Ports().Clouds[name]
	delete(p.b.Ports().Clouds, name)
	return name, func() { p.b.Ports().Clouds[name] = c }
}

// provision calls the provision function with an event.
func (p *agentBench) provision(e events.Event) error {
	return p.b.Functions.Handle(p.t.Context(), events.FnProvision, []events.Event{e})[0]
}

// TestMachinesOfRemovedCloudStayRecorded: an update removes the cloud on which a task runs from the deployment. The
// machines are billed until the cloud is configured again, so their record must stay.
func TestMachinesOfRemovedCloudStayRecorded(t *testing.T) {
	p := newAgentBench(t, lonely, nil)
	id := record.ClusterID(p.job, 0, 1)
	told(t, "the node", hello(t, p.b, p.claims(0, 0)), wire.Run, 1)
	for n, ev := range []wire.Event{wire.Started, wire.Succeeded} {
		report := wire.Report{ID: string(rune('a' + n)), Event: ev}
		if err := p.b.Agents.Report(t.Context(), p.claims(0, 0), report); err != nil {
			t.Fatal(err)
		}
	}
	name, back := p.without(id)
	ended := p.until(events.TypeTaskSucceeded)
	if err := p.provision(ended); err == nil || !strings.Contains(err.Error(), "no credentials any more for "+name) {
		t.Errorf("its release says %v", err)
	}
	p.deliverAll()
	p.now = p.now.Add(p.b.Config().StuckFor + time.Minute)
	if told := p.reconcile(); told[events.TypeClusterRelease] == 0 || told[events.TypeCapacityFreed] != 0 {
		t.Errorf("reconcile emitted %v", told)
	}
	if cl := p.cluster(id); cl.ID == "" {
		t.Error("its machines are not recorded any more")
	}
	back()
	p.now = p.now.Add(p.b.Config().StuckFor + time.Minute)
	told := p.reconcile()
	if left := len(p.cloud[name].clusters); told[events.TypeCapacityFreed] == 0 || left > 0 {
		t.Errorf("with the cloud again, reconcile emitted %v, and %d clusters run", told, left)
	}
}

// TestPossibleLaunchOnRemovedCloudStaysRecorded: a cloud is removed that may have launched a cluster. The record of
// the cluster must stay.
func TestPossibleLaunchOnRemovedCloudStaysRecorded(t *testing.T) {
	p := &agentBench{bench: newBench(t)}
	ports := p.b.Ports()
	cfg := config.Default()
	cfg.LaunchTries = 1
	p.b = broker.New(cfg, ports)
	var name string
	var back func()
	for _, s := range p.cloud {
		s.refuse = func(spec cloud.LaunchSpec) error {
			if back == nil {
				name, back = p.without(spec.Cluster)
			}
			return errors.New("the answer was lost")
		}
	}
	p.submit(lonely, "1")
	admitted := p.until(events.TypeTaskAdmitted)
	for range 2 {
		err := p.provision(admitted)
		if err == nil || !strings.Contains(err.Error(), "no credentials any more for "+name) {
			t.Errorf("its launch says %v", err)
		}
	}
	if cl := p.cluster(record.ClusterID(p.job, 0, 1)); cl.ID == "" {
		t.Error("a cluster that may run is not recorded any more")
	}
	back()
	if err := p.provision(admitted); err != nil {
		t.Error(err)
	}
	if cl := p.cluster(record.ClusterID(p.job, 0, 1)); cl.ID != "" {
		t.Errorf("with the cloud again: it is %s", cl.State)
	}
}

// TestNoOthersEndsMachinesOfRemovedCloud: a broker on a user's computer has other clouds than the day before, when it
// simulated all of them. The machines of the missing clouds must count as ended.
func TestNoOthersEndsMachinesOfRemovedCloud(t *testing.T) {
	p := &agentBench{bench: newBench(t)}
	ports := p.b.Ports()
	ports.NoOthers = true
	p.b = broker.New(config.Default(), ports)
	p.submit(lonely, "1")
	p.deliverAll()
	id := record.ClusterID(p.job, 0, 1)
	if _, _ = p.without(id); p.b.Users.Cancel(t.Context(), p.job, "") != nil {
		t.Fatal("not cancelled")
	}
	if p.deliverAll(); p.cluster(id).ID != "" {
		t.Error("the broker waits for its machines")
	}
}
