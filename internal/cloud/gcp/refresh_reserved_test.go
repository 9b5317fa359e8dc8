package gcp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func said(c *catalog.Catalog) (all []string) {
	for _, r := range c.Reserved() {
		all = append(all, fmt.Sprintf("%s: %d %s in %s by %s at %v", r.ID, r.Count, r.InstanceType, r.Where(), r.By, r.USDPerHour))
	}
	return all
}

// Reserved capacity counts unless machines of others use it. Machines of this deployment do not reduce it.
func TestReserved(t *testing.T) {
	w := refreshNewWorld(t, prices())
	const zone = "us-central1-a"
	mine := w.gce.Reserve(zone, "mine", "n2-standard-4", 5, true)
	w.gce.Reserve(zone, "common", "e2-standard-2", 2, false)
	w.gce.Reserve("us-west1-a", "elsewhere", "e2-standard-2", 2, false) // not a region of the deployment
	w.gce.Occupy(w.gce.Reserve(zone, "full", "e2-standard-2", 2, true), 2)
	w.gce.Reserve(zone, "creating", "e2-standard-2", 2, true).Status = "CREATING"
	w.gce.Reserve(zone, "disks", "n2-standard-4", 2, true).SpecificReservation.InstanceProperties.LocalSsds = []*compute.AllocationSpecificSKUAllocationAllocatedInstancePropertiesReservedDisk{{DiskSizeGb: 375}}
	w.gce.Reserve(zone, "gpus", "n1-standard-8", 2, true).SpecificReservation.InstanceProperties.GuestAccelerators =
		[]*compute.AcceleratorConfig{{AcceleratorType: "nvidia-tesla-t4", AcceleratorCount: 1}}
	w.gce.Occupy(mine, 1)
	w.r.Cloud = w.driver(driver.Agents{"": strings.Repeat("a", 64)})
	offer := apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: zone, InstanceType: "n2-standard-4",
		Reservation: gcp.ReservationID(zone, "mine", true)}
	if _, err := w.r.Cloud.Launch(t.Context(), cloud.LaunchSpec{Cluster: "a", Nodes: 2, Offer: offer,
		Bootstrap: cloud.Bootstrap{Endpoint: "https://b.example", Tokens: []string{"t", "u"}}}); err != nil {
		t.Fatal(err)
	}
	named := catalog.Reserved{Cloud: "gcp", ID: "x", Region: "us-central1", InstanceType: "e2-standard-2", Count: 1, By: catalog.BySettings}
	old := catalog.Reserved{Cloud: "gcp", ID: "res-" + zone + ".gone", Region: "us-central1", InstanceType: "e2-standard-2", Count: 1}
	var err error
	if w.base, err = w.base.WithReserved(func(*catalog.Reserved) bool { return true }, []catalog.Reserved{named, old}); err != nil {
		t.Fatal(err)
	}
	next, _ := w.refresh()
	want := []string{
		"open-us-central1-a.common: 2 e2-standard-2 in us-central1/us-central1-a by reservation at 0",
		"res-us-central1-a.mine: 4 n2-standard-4 in us-central1/us-central1-a by reservation at 0",
		"x: 1 e2-standard-2 in us-central1 by settings at 0",
	}
	if got := said(next); !slices.Equal(got, want) {
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}

func TestRefreshKeepsReservationsIfCallFails(t *testing.T) {
	w := refreshNewWorld(t, prices())
	before := catalog.Reserved{Cloud: "gcp", ID: "res-us-central1-a.mine", Region: "us-central1", Zone: "us-central1-a", InstanceType: "e2-standard-2", Count: 2}
	var err error
	if w.base, err = w.base.WithReserved(func(*catalog.Reserved) bool { return true }, []catalog.Reserved{before}); err != nil {
		t.Fatal(err)
	}
	w.gce.Refuse("compute.reservations.aggregatedList", gce.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.reservations.list' permission"})
	next, res := w.refresh()
	if got := next.Reserved(); len(got) != 1 || got[0] != before {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(res.Kept, func(s string) bool {
		return strings.Contains(s, "reserved capacity of the project") && strings.Contains(s, "compute.reservations.list")
	}) {
		t.Errorf("Kept does not list it: %v", res.Kept)
	}
}

// Reservations and on-demand machines of others use a commitment, so they reduce it. Machines of this deployment do
// not: the broker counts their use itself.
func TestCommitted(t *testing.T) {
	w := refreshNewWorld(t, prices())
	const zone = "us-central1-a"
	later := time.Now().Add(1000 * time.Hour).Truncate(time.Second)
	w.gce.Commit("us-central1", "one", "GENERAL_PURPOSE_E2", 32, 128, later.Add(time.Hour))
	w.gce.Commit("us-central1", "two", "GENERAL_PURPOSE_E2", 8, 0, later)
	w.gce.Commit("us-central1", "over", "GENERAL_PURPOSE_E2", 100, 100, later).Status = "EXPIRED"
	w.gce.Commit("us-central1", "used", "GENERAL_PURPOSE_N2", 4, 16, later)
	w.gce.Commit("us-central1", "gpus", "ACCELERATOR_OPTIMIZED", 96, 1360, later)
	w.gce.Commit("us-west1", "elsewhere", "GENERAL_PURPOSE_E2", 96, 384, later)
	w.gce.Reserve(zone, "mine", "e2-standard-2", 2, true)
	agents := driver.Agents{"": strings.Repeat("a", 64)}
	w.r.Cloud = w.driver(agents)
	other := gcp.New(gcp.Config{Deployment: "other", Project: "demo", Regions: []string{"us-central1"}, Endpoint: w.url,
		Agents: agents, Client: []option.ClientOption{option.WithHTTPClient(&http.Client{})}})
	launch := func(c *gcp.Cloud, cluster, kind string, spot bool) {
		t.Helper()
		offer := apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: zone, InstanceType: kind, Spot: spot}
		if _, err := c.Launch(t.Context(), cloud.LaunchSpec{Cluster: cluster, Nodes: 1, Offer: offer,
			Bootstrap: cloud.Bootstrap{Endpoint: "https://b.example", Tokens: []string{"t"}}}); err != nil {
			t.Fatal(err)
		}
	}
	launch(w.r.Cloud, "a", "e2-standard-2", false)
	launch(other, "b", "e2-standard-2", false)
	launch(other, "c", "e2-standard-2", true)
	launch(other, "d", "n2-standard-4", false)
	next, res := w.refresh()
	var got *catalog.Reserved
	for _, r := range next.Reserved() {
		if r.Commitment == nil {
			continue
		}
		if got != nil {
			t.Errorf("another one: %+v", r)
		}
		got = &r
	}
	if got == nil || len(res.Kept) > 0 {
		t.Fatalf("no commitment found; kept %v", res.Kept)
	}
	if got.ID != "cud-e2-us-central1" || got.By != catalog.ByCommittedUse || !got.Until.Equal(later) {
		t.Errorf("%+v", got)
	}
	if has := catalog.DemandOf(40-2*2-2, 128-2*8-8); got.Has() != has {
		t.Errorf("%s are free, not %s", got.Has(), has)
	}
	offer := lookup(t, next, "gcp/us-central1/us-central1-a/e2-standard-2")
	if takes, ok := got.Takes(&offer); !ok || takes != catalog.DemandOf(2, 8) {
		t.Errorf("a machine takes %s, %v", takes, ok)
	}
	// these cost more than their vCPUs and memory, or belong to another family
	for _, not := range []string{"e2-micro", "n2-standard-4"} {
		if offer.InstanceType = not; got.Covers(&offer) {
			t.Errorf("the commitment covers %s", not)
		}
	}
	// Without the permission, the old commitments must stay, and Kept must list them.
	w.base = next
	w.gce.Refuse("compute.regionCommitments.aggregatedList", gce.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.commitments.list' permission"})
	again, res := w.refresh()
	if len(again.Reserved()) != len(next.Reserved()) || !slices.ContainsFunc(res.Kept, func(s string) bool {
		return strings.Contains(s, "the committed use of the project") && strings.Contains(s, "compute.commitments.list")
	}) {
		t.Errorf("%v, kept %v", said(again), res.Kept)
	}
}

// A check must report all capacity of the project, used up or not, and how much of it others use. If a permission is
// missing, it must report the command that grants it.
func TestOwned(t *testing.T) {
	w := refreshNewWorld(t, prices())
	const zone = "us-central1-a"
	w.gce.Occupy(w.gce.Reserve(zone, "full", "e2-standard-2", 2, true), 2)
	w.gce.Reserve(zone, "mine", "n2-standard-4", 5, true)
	w.gce.Commit("us-central1", "one", "GENERAL_PURPOSE_N2", 32, 128, time.Now().Add(time.Hour))
	tell := func() (all []string) {
		t.Helper()
		told, lacks := gcp.Owned(t.Context(), w.r.Cloud)
		for _, k := range told {
			all = append(all, fmt.Sprintf("%s: %v of %v for %s%s", k.ID, k.Has, k.Total, k.InstanceType, k.What))
		}
		for _, l := range lacks {
			if l.Fatal || !strings.HasPrefix(l.Mend, "gcloud projects add-iam-policy-binding") {
				t.Errorf("%+v", l)
			}
			all = append(all, l.What)
		}
		return all
	}
	want := []string{
		"res-us-central1-a.full: nothing of 2 machines for e2-standard-2",
		"res-us-central1-a.mine: 5 machines of 5 machines for n2-standard-4",
		"cud-n2-us-central1: 12 vCPUs and 48 GiB of 32 vCPUs and 128 GiB for n2 machines",
	}
	if got := tell(); !slices.Equal(got, want) {
		t.Errorf("reported\n%s", strings.Join(got, "\n"))
	}
	for _, c := range [][2]string{
		{"compute.regionCommitments.aggregatedList", "the committed use of the project "},
		{"compute.reservations.aggregatedList", "the reserved capacity of the project "},
	} {
		method, list := c[0], c[1]
		w.gce.Refuse(method, gce.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.x.list' permission"})
		got := tell()
		if last := got[len(got)-1]; !strings.HasPrefix(last, list) || !strings.HasSuffix(last, "is unknown: Required 'compute.x.list' permission") {
			t.Errorf("%s: %s", method, last)
		}
	}
}
