package attempt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// RunOnService is the name of the single run that an attempt makes on its place.
const RunOnService = "run"

// PlaceName returns the name of the place of an attempt on a service. The ID of the cluster cannot be used, because
// it has characters that names of places cannot have.
func PlaceName(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return "p" + hex.EncodeToString(sum[:16])
}

// PlaceOn returns the place of an attempt on a service, with the fields that the records have.
func PlaceOn(cfg config.Config, cl record.Cluster) service.Place {
	store := strings.TrimSuffix(cmp.Or(cl.Store, cfg.StoreURL), "/")
	return service.Place{
		Name: PlaceName(cl.ID), Region: cl.Offer.Region, Release: cl.Offer.Release,
		Logs: store + "/" + path.Join(cl.Job, "service-logs", PlaceName(cl.ID)) + "/",
	}
}

// idlePlace is the time after which a service ends a place without an application, if the broker has not ended it.
const idlePlace = 15 * time.Minute

// PlaceSpec returns the place to be created for an intended attempt on a service.
func PlaceSpec(cfg config.Config, st Buying) service.Spec {
	p := PlaceOn(cfg, st.Cluster)
	s := service.Spec{
		Name: p.Name, Region: p.Region, Release: p.Release, Logs: p.Logs, InstanceType: st.Cluster.Offer.InstanceType,
		Spot: st.Cluster.Offer.Spot, Executors: Executors(st.Spec, st.Cluster.Offer.Service), Idle: idlePlace,
		Labels: map[string]string{"job": st.Job.ID, "task": st.Spec.Name, "queue": st.Job.Queue},
	}
	if t := st.Spec; t.Timeout > 0 {
		s.Life = cfg.Wall(t.Timeout) + time.Hour
	}
	return s
}

// Executors returns the executors of a task on a service.
func Executors(t *dag.Task, of string) service.Executors {
	least := max(int(t.Executors.Min), 1)
	e := service.Executors{Min: least, Max: max(int(t.Executors.Max), least)}
	if r := t.ServiceNamed(of); r != nil && strings.HasSuffix(of, "-serverless") {
		e.VCPUs, e.MemoryGiB = t.ExecutorSize(r)
	}
	return e
}

// ServiceStep is the broker's next step for an attempt on a service. On a service, the broker acts in place of an
// agent.
type ServiceStep struct {
	Hello  bool         // the place is ready: bring the attempt up
	Submit bool         // submit the application
	Cancel bool         // stop the application
	Report *wire.Report // report this, like an agent
	// Lost is the reason why the place or the run is lost, or nil. Refused means that the place never became ready,
	// so its location must be blocked.
	Lost    *cloud.Error
	Refused bool
}

// DecideOnService returns the next step of an attempt on a service, given the states of its place and its run that
// the service reports. The state of a run that was not submitted is empty.
func DecideOnService(cl record.Cluster, p service.Place, run service.Run) (s ServiceStep) {
	report := func(e wire.Event) *wire.Report {
		return &wire.Report{ID: "service-" + string(e), Attempt: cl.ID, Event: e}
	}
	ended := p.State == service.Ended || p.State == service.Ending
	stopping := slices.Contains([]string{string(wire.Stop), string(wire.SaveAndStop)}, cl.Command)
	switch {
	case cl.Outcome != "" || cl.State == record.ClusterLaunching || cl.State == record.ClusterReleasing:
	case stopping && run.State != "" && !run.State.Final():
		s.Cancel = true
	case stopping:
		s.Report = report(wire.Stopped)
	case run.State == service.Succeeded:
		s.Report = report(wire.Succeeded)
	case run.State == service.Failed:
		s.Report = report(wire.Failed)
		s.Report.ExitCode, s.Report.Message = 1, run.Message
	case ended || run.State == service.Lost || run.State == service.Cancelled:
		text := cmp.Or(run.Message, "its place on "+cl.Offer.Service+" has ended")
		s.Lost = cmp.Or(p.Why, cloud.Errorf(cl.Offer.Cloud, cloud.Capacity, string(p.State), "%s", text))
		s.Refused = cl.State == record.ClusterBooting
	case cl.State == record.ClusterBooting:
		s.Hello = p.State == service.Ready
	case cl.Command != string(wire.Run):
	case run.State == "":
		s.Submit = true
	case run.State == service.Running && !cl.Started:
		s.Report = report(wire.Started)
	}
	return s
}

// PlaceBlock returns a block of the location of a place that never became ready.
func PlaceBlock(why *cloud.Error) func(apitypes.Offer, config.Config, []apitypes.Block, time.Time) apitypes.Block {
	return func(o apitypes.Offer, cfg config.Config, known []apitypes.Block, now time.Time) apitypes.Block {
		return blockFor(o, why.Kind, why, cfg, known, now)
	}
}
