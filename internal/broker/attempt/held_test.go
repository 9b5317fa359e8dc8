package attempt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// An intent to launch on reserved capacity must count the new cluster as a user of that capacity in the same
// decision. If other clusters leave too little of it, the task is replanned.
func TestIntentTakesReservedCapacity(t *testing.T) {
	cfg, now := config.Default(), time.Unix(10_000, 0)
	offer := apitypes.Offer{Cloud: "aws", Region: "r", InstanceType: "m", Reservation: "cr-1", Reserved: 3}
	cluster := func(id string, state record.ClusterState, outcome apitypes.Outcome) record.Cluster {
		return record.Cluster{ID: id, State: state, Outcome: outcome, Offer: offer}
	}
	up := cluster("other.0.1", record.ClusterUp, "")
	for name, c := range map[string]struct {
		there  []record.Cluster
		nodes  int
		bought bool
	}{
		"nobody is there":             {nodes: 3, bought: true},
		"more than there is":          {nodes: 4},
		"beside one that has two":     {there: []record.Cluster{up}, nodes: 1, bought: true},
		"beside one, too many":        {there: []record.Cluster{up}, nodes: 2},
		"one that is kept holds":      {there: []record.Cluster{cluster("other.0.1", record.ClusterUp, apitypes.OutcomeFailed)}, nodes: 2},
		"one whose work is done":      {there: []record.Cluster{cluster("other.0.1", record.ClusterUp, apitypes.OutcomeSucceeded)}, nodes: 3, bought: true},
		"one that is being released":  {there: []record.Cluster{cluster("other.0.1", record.ClusterReleasing, apitypes.OutcomeLost)}, nodes: 3, bought: true},
		"one that may be bought":      {there: []record.Cluster{cluster("other.0.1", record.ClusterLaunching, "")}, nodes: 2},
		"one that is gone, forgotten": {there: []record.Cluster{cluster("next.0.1", record.ClusterUp, "")}, nodes: 3, bought: true},
	} {
		t.Run(name, func(t *testing.T) {
			held := record.Occupancy{ID: "aws/cr-1", Clusters: map[string]int{"other.0.1": 2}}
			st := &Buying{
				Job:     record.Job{ID: "j", State: apitypes.JobRunning},
				task:    record.Task{Job: "j", Attempt: 1, State: record.TaskAdmitted},
				Attempt: apitypes.Attempt{Job: "j", Number: 1, Nodes: c.nodes, Offer: offer}, Spec: &dag.Task{},
			}
			st.held, st.inUse = held.Now(c.there)
			d, proceed := DecideIntent(st, cfg, now)
			if proceed != c.bought {
				t.Fatalf("bought: %v", proceed)
			}
			var wrote *record.Occupancy
			for _, w := range d.Writes {
				if h, ok := w.Value.(record.Occupancy); ok && w.Key == record.HeldKey("aws/cr-1") {
					wrote = &h
				}
			}
			if (wrote != nil) != c.bought {
				t.Fatalf("written: %+v", d.Writes)
			}
			if !c.bought {
				if st.Attempt.Outcome != apitypes.OutcomeBlocked || !strings.Contains(st.Attempt.Reason, "all 3 machines of the reservation cr-1") {
					t.Errorf("%s: %s", st.Attempt.Outcome, st.Attempt.Reason)
				}
				blocked := slices.ContainsFunc(d.Writes, func(w record.Write) bool {
					k, is := w.Value.(apitypes.Block)
					return is && record.Covers(k, offer, now) && k.Reservation == offer.Reservation
				})
				gone := slices.ContainsFunc(d.Writes, func(w record.Write) bool {
					k, is := w.Value.(apitypes.Block)
					return is && w.Expires.Equal(k.Until.Add(4*k.Until.Sub(k.At)))
				})
				if !gone {
					t.Errorf("its record stays for ever, or is deleted while it still counts: %+v", d.Writes)
				}
				// otherwise several gangs each get a part of the reservation, and break up again and again
				if !blocked {
					t.Errorf("plans may use it again at once: %+v", d.Writes)
				}
				return
			}
			sum := 0
			for _, n := range wrote.Clusters {
				sum += n
			}
			if wrote.Clusters["j.0.1"] != c.nodes || sum > offer.Reserved {
				t.Errorf("%v", wrote.Clusters)
			}
			if held.Clusters["j.0.1"] != 0 || len(held.Clusters) != 1 {
				t.Error("the loaded record was changed")
			}
		})
	}
}

func TestOnlyFailedReservationIsBlocked(t *testing.T) {
	on := apitypes.Offer{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "m.large", Reservation: "cr-1"}
	beside := on
	beside.Reservation = ""
	now, cfg := time.Unix(10_000, 0), config.Default()
	for _, c := range []struct {
		of             apitypes.Offer
		kind           cloud.Kind
		blocks, others bool
	}{
		{on, cloud.Capacity, true, false}, {on, cloud.Transient, true, false}, {on, cloud.Quota, true, true},
		{on, cloud.Auth, true, true}, {beside, cloud.Capacity, false, true}, {beside, cloud.Quota, true, true},
	} {
		k := blockFor(c.of, c.kind, cloud.Errorf("aws", c.kind, "C", "m"), cfg, nil, now)
		if record.Covers(k, on, now) != c.blocks || record.Covers(k, beside, now) != c.others {
			t.Errorf("%s of %q blocks it: %v, others: %v", c.kind, c.of.Reservation, record.Covers(k, on, now), record.Covers(k, beside, now))
		}
	}
	a := blockFor(on, cloud.Transient, cloud.Errorf("aws", cloud.Transient, "C", "m"), cfg, nil, now)
	b := blockFor(beside, cloud.Transient, cloud.Errorf("aws", cloud.Transient, "C", "m"), cfg, nil, now)
	if record.BlockKey(a) == record.BlockKey(b) {
		t.Error("one block overwrites the other")
	}
}

// A machine uses as much of a commitment as its type has vCPUs and memory, whichever job the machine belongs to.
func TestCommitmentCountsResourcesOfMachines(t *testing.T) {
	has := catalog.DemandOf(10, 64)
	on := func(vcpu, gib float64) apitypes.Offer {
		return apitypes.Offer{Cloud: "gcp", Region: "r", InstanceType: "m", Reservation: "cud", Has: has,
			Takes: catalog.DemandOf(vcpu, gib)}
	}
	there := []record.Cluster{{ID: "other.0.1", State: record.ClusterUp, Offer: on(2, 16)}}
	// each machine uses 4 vCPUs and 32 GiB
	held := record.Occupancy{ID: "gcp/cud", Clusters: map[string]int{"other.0.1": 2}}
	for _, c := range []struct {
		offer  apitypes.Offer
		nodes  int
		bought bool
	}{
		{on(6, 32), 1, true}, {on(3, 16), 2, true}, {on(6.5, 8), 1, false}, {on(1, 33), 1, false}, {on(3, 16), 3, false},
	} {
		st := &Buying{
			Job: record.Job{ID: "j", State: apitypes.JobRunning}, task: record.Task{Job: "j", Attempt: 1, State: record.TaskAdmitted},
			Attempt: apitypes.Attempt{Job: "j", Number: 1, Nodes: c.nodes, Offer: c.offer}, Spec: &dag.Task{},
		}
		st.held, st.inUse = held.Now(there)
		if _, proceed := DecideIntent(st, config.Default(), time.Unix(10_000, 0)); proceed != c.bought {
			t.Errorf("%d of %s in addition to %s of %s: bought %v", c.nodes, c.offer.Takes, st.inUse, has, proceed)
		} else if !proceed && !strings.Contains(st.Attempt.Reason, "of the commitment cud is in use, of 10 vCPUs and 64 GiB") {
			t.Error(st.Attempt.Reason)
		}
	}
}

// A transient failure blocks a location, including reserved capacity there. A later capacity failure in the same
// location must not unblock the reserved capacity.
func TestCapacityBlockKeepsEarlierKind(t *testing.T) {
	cfg, now := config.Default(), time.Unix(10_000, 0)
	open := apitypes.Offer{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "m"}
	reserved := open
	reserved.Reservation = "cr-1"
	refused := func(kind cloud.Kind, known ...apitypes.Block) apitypes.Block {
		return blockFor(open, kind, cloud.Errorf("aws", kind, "C", "m"), cfg, known, now)
	}
	if k := refused(cloud.Capacity); record.Covers(k, reserved, now) {
		t.Errorf("%+v", k)
	}
	if k := refused(cloud.Capacity, refused(cloud.Transient)); !record.Covers(k, reserved, now) || !record.Covers(k, open, now) {
		t.Errorf("%+v", k)
	}
}
