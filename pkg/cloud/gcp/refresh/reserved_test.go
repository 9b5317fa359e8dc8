package refresh_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
)

func said(c *catalog.Catalog) (all []string) {
	for _, r := range c.Reserved() {
		all = append(all, fmt.Sprintf("%s: %d %s in %s by %s at %v", r.ID, r.Count, r.InstanceType, r.Where(), r.By, r.USDPerHour))
	}
	return all
}

// Counted is what nobody else uses: machines of this deployment run on what they were planned on.
func TestWhatAProjectHasReservedIsFound(t *testing.T) {
	w := newWorld(t, prices())
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
	offer := cloud.Offer{Cloud: "gcp", Region: "us-central1", Zone: zone, InstanceType: "n2-standard-4",
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

func TestWhatWasReservedIsKeptWhereNobodyTells(t *testing.T) {
	w := newWorld(t, prices())
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
		return strings.Contains(s, "capacity that the project has") && strings.Contains(s, "compute.reservations.list")
	}) {
		t.Errorf("it does not say so: %v", res.Kept)
	}
}
