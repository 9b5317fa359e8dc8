package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

func TestStepOfAttemptOnService(t *testing.T) {
	run := string(wire.Run)
	full := cloud.Errorf("aws", cloud.Capacity, "x", "no machines left")
	for name, c := range map[string]struct {
		state   record.ClusterState
		command string
		started bool
		outcome apitypes.Outcome
		place   service.State
		why     *cloud.Error
		run     service.RunState
		want    string // hello, submit, cancel, lost, refused, or the reported event
	}{
		"it starts":                  {state: record.ClusterBooting, place: service.Starting},
		"it is ready":                {state: record.ClusterBooting, place: service.Ready, want: "hello"},
		"it was never ready":         {state: record.ClusterBooting, place: service.Ended, why: full, want: "refused"},
		"it has work":                {state: record.ClusterUp, command: run, place: service.Ready, want: "submit"},
		"it waits":                   {state: record.ClusterUp, command: run, place: service.Ready, run: service.Pending},
		"it runs":                    {state: record.ClusterUp, command: run, place: service.Ready, run: service.Running, want: "started"},
		"it still runs":              {state: record.ClusterUp, command: run, started: true, place: service.Ready, run: service.Running},
		"it has succeeded":           {state: record.ClusterUp, command: run, place: service.Ready, run: service.Succeeded, want: "succeeded"},
		"it has failed":              {state: record.ClusterUp, command: run, place: service.Ready, run: service.Failed, want: "failed"},
		"its place ends as it runs":  {state: record.ClusterUp, command: run, place: service.Ended, why: full, run: service.Running, want: "lost"},
		"success before the end":     {state: record.ClusterUp, command: run, place: service.Ended, run: service.Succeeded, want: "succeeded"},
		"its place is lost":          {state: record.ClusterUp, command: run, place: service.Ending, why: full, run: service.Lost, want: "lost"},
		"lost before it was started": {state: record.ClusterUp, command: run, place: service.Ended, want: "lost"},
		"another user cancelled it":  {state: record.ClusterUp, command: run, place: service.Ready, run: service.Cancelled, want: "lost"},
		"it is to stop":              {state: record.ClusterUp, command: string(wire.Stop), place: service.Ready, run: service.Running, want: "cancel"},
		"it has stopped":             {state: record.ClusterUp, command: string(wire.Stop), place: service.Ready, run: service.Cancelled, want: "stopped"},
		"it saves its work":          {state: record.ClusterDoomed, command: string(wire.SaveAndStop), place: service.Ready, run: service.Running, want: "cancel"},
		"its outcome is known":       {state: record.ClusterUp, command: run, outcome: apitypes.OutcomeLost, place: service.Ready, run: service.Running},
		"it is being released":       {state: record.ClusterReleasing, command: run, place: service.Ending, run: service.Lost},
	} {
		cl := record.Cluster{ID: "j/0/1", State: c.state, Command: c.command, Started: c.started, Outcome: c.outcome,
			Offer: apitypes.Offer{Cloud: "aws", Service: "emr"}}
		s := DecideOnService(cl, service.Place{State: c.place, Why: c.why}, service.Run{State: c.run, Message: "because"})
		got := ""
		switch {
		case s.Hello:
			got = "hello"
		case s.Submit:
			got = "submit"
		case s.Cancel:
			got = "cancel"
		case s.Refused:
			got = "refused"
		case s.Lost != nil:
			got = "lost"
		case s.Report != nil:
			got = string(s.Report.Event)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if s.Refused && s.Lost != full || s.Report != nil && s.Report.Event == wire.Failed && s.Report.Message != "because" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestFullServiceIsBlockedInItsRegion: a service refuses a cluster for lack of capacity. The block must cover the
// whole region, because a service chooses the zone itself: a request for another zone would be the same request.
func TestFullServiceIsBlockedInItsRegion(t *testing.T) {
	full := cloud.Errorf("gcp", cloud.Capacity, "ERROR", "no machines left")
	o := apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "n2-standard-4"}
	for service, zone := range map[string]string{"": "us-central1-a", "dataproc": ""} {
		o.Service = service
		b := PlaceBlock(full)(o, config.Default(), nil, time.Now())
		if b.Zone != zone || b.Region != o.Region || b.InstanceType != o.InstanceType || b.Service != service {
			t.Errorf("%q: %+v", service, b)
		}
	}
}
