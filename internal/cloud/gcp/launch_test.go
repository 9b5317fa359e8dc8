package gcp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func (w *world) launch(s cloud.LaunchSpec) []cloud.Machine {
	w.Helper()
	machines, err := w.gcp.Launch(w.Context(), s)
	if err != nil {
		w.Fatal(err)
	}
	return machines
}

// none waits until no machine exists. The emulator needs some requests to delete one.
func (w *world) none(c *gcp.Cloud) {
	w.Helper()
	for range 10 {
		if len(w.gce.Machines()) == 0 {
			break
		}
		if _, err := c.Machines(w.Context(), ""); err != nil {
			w.Fatal(err)
		}
	}
	if left := w.gce.Machines(); len(left) > 0 || len(w.gce.Leftovers()) > 0 {
		w.Errorf("left: %v %v", left, w.gce.Leftovers())
	}
}

func value(i *compute.Instance, key string) string {
	for _, item := range i.Metadata.Items {
		if item.Key == key && item.Value != nil {
			return *item.Value
		}
	}
	return ""
}

func TestLaunchRequestMatchesSpec(t *testing.T) {
	w := newWorld(t, func(c *gcp.Config) { c.Network, c.NoPublicAddress, c.DiskGiB = "default", true, 70 })
	s := spec("Job-1.train_a.1", 2, spot)
	s.Labels["task"] = "Train A"
	m := w.launch(s)
	i := w.gce.Instance(m[1].ID)
	if m[1].Rank != 1 || !strings.HasSuffix(i.Name, "-1") || m[1].Account != "demo" || m[1].Offer != spot {
		t.Errorf("%+v", m[1])
	}
	if i.Labels["tradewind-task"] != "train-a" || !strings.HasPrefix(i.Labels["tradewind-cluster"], "job-1-train_a-1-") {
		t.Errorf("labels %v", i.Labels)
	}
	sch := i.Scheduling
	if sch.ProvisioningModel != "SPOT" || sch.InstanceTerminationAction != "DELETE" || *sch.AutomaticRestart || sch.OnHostMaintenance != "TERMINATE" {
		t.Errorf("%+v", sch)
	}
	if a := i.GuestAccelerators; len(a) != 1 || a[0].AcceleratorType != "nvidia-tesla-v100" || a[0].AcceleratorCount != 1 {
		t.Errorf("accelerators %+v", a)
	}
	if d := i.Disks; len(d) != 1 || !d[0].AutoDelete || d[0].DiskSizeGb != 70 {
		t.Errorf("disks %+v", d)
	}
	if sa := i.ServiceAccounts; len(sa) != 1 || !slices.Equal(sa[0].Scopes, []string{"https://www.googleapis.com/auth/userinfo.email"}) {
		t.Errorf("service accounts %+v", sa)
	}
	if sh := i.ShieldedInstanceConfig; !sh.EnableVtpm || !sh.EnableIntegrityMonitoring || sh.EnableSecureBoot {
		t.Errorf("%+v", sh)
	}
	if len(i.NetworkInterfaces[0].AccessConfigs) != 0 {
		t.Error("the machine has a public address")
	}
	script := value(i, "startup-script")
	if !strings.HasPrefix(script, "#!/bin/bash") || !strings.Contains(script, "token-of-Job-1.train_a.1") ||
		value(i, "block-project-ssh-keys") != "TRUE" {
		t.Errorf("metadata %q", script)
	}
	found, err := w.gcp.Machines(t.Context(), "")
	if err != nil || len(found) != 2 || found[0].Cluster != s.Cluster || found[0].Offer != spot || found[0].State != cloud.Running {
		t.Errorf("%+v %v", found, err)
	}
}

func TestLaunchPlainMachine(t *testing.T) {
	w := newWorld(t, func(c *gcp.Config) { c.ServiceAccount = "" })
	o := onDemand
	o.InstanceType = "c4a-standard-4"
	s := spec("a", 1, o)
	s.DiskGiB = 44.5
	i := w.gce.Instance(w.launch(s)[0].ID)
	if i.Disks[0].DiskSizeGb != 45 {
		t.Errorf("disk %d", i.Disks[0].DiskSizeGb)
	}
	if len(i.ServiceAccounts) != 0 || !i.ShieldedInstanceConfig.EnableSecureBoot || len(i.NetworkInterfaces[0].AccessConfigs) != 1 ||
		i.Scheduling.ProvisioningModel != "STANDARD" || i.Scheduling.InstanceTerminationAction != "" {
		t.Errorf("%+v", i)
	}
}

// Some machine types cannot be moved to another host, and others must be movable. A launch must state the right one,
// because Google refuses the other.
func TestHostMaintenancePolicy(t *testing.T) {
	w := newWorld(t, nil)
	for kind, want := range map[string]string{
		"h4d-standard-192": "TERMINATE", "c3-standard-192-metal": "TERMINATE", "z3-highmem-88-highlssd": "TERMINATE",
		"z3-highmem-176-standardlssd": "TERMINATE", "z3-highmem-88-standardlssd": "", "z3-highmem-44-highlssd": "",
		"e2-standard-4": "", "n2-standard-8": "",
	} {
		o := onDemand
		o.InstanceType = kind
		if i := w.gce.Instance(w.launch(spec(kind, 1, o))[0].ID); i.Scheduling.OnHostMaintenance != want {
			t.Errorf("%s: %q", kind, i.Scheduling.OnHostMaintenance)
		}
	}
}

// Two clusters have names that are equal in the alphabet of labels. They must stay different clusters.
func TestSimilarNamesAreDifferentClusters(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("x", 80)
	for _, name := range []string{"a.b", "a-b", "A-B", "a/b", long + "1", long + "2"} {
		w.launch(spec(name, 1, onDemand))
		if found, err := w.gcp.Machines(t.Context(), name); err != nil || len(found) != 1 || found[0].Cluster != name {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
}

func TestLostAnswersBuyOnce(t *testing.T) {
	w := newWorld(t, nil)
	for range 3 {
		w.gce.Lose("compute.instances.bulkInsert")
	}
	w.gce.Lag(1)
	s := spec("a", 2, onDemand)
	if _, err := w.gcp.Launch(t.Context(), s); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("%v", err)
	}
	w.gce.EndWaits(1)
	other := w.another(nil) // as after a crash
	m, err := other.Launch(t.Context(), s)
	if err != nil || len(m) != 2 || len(w.gce.Machines()) != 2 {
		t.Errorf("%v %v", m, err)
	}
}

// A process died while it bought a cluster. Terminate in another process must wait for the operation and end the
// machines.
func TestTerminateWaitsForOngoingPurchase(t *testing.T) {
	w := newWorld(t, nil)
	s := spec("a", 2, onDemand)
	for range 3 {
		w.gce.Lose("compute.instances.bulkInsert")
	}
	w.gce.Lag(2)
	if _, err := w.gcp.Launch(t.Context(), s); err == nil {
		t.Fatal("the launch succeeded although all answers were lost")
	}
	other := w.another(nil)
	if err := other.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := other.Terminate(t.Context(), "a"); err != nil { // lists lagged during the first call
		t.Fatal(err)
	}
	w.none(other)
}

// While lists lag, bought machines must be found through the operations of the zone, on every page of them.
func TestTerminateReadsAllOperationsOfZone(t *testing.T) {
	w := newWorld(t, nil)
	for range 3 {
		w.gce.Lose("compute.instances.bulkInsert")
	}
	w.gce.Lag(100)
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand)); err == nil {
		t.Fatal("the launch succeeded although all answers were lost")
	}
	if err := w.gcp.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if n := w.gce.Calls("compute.instances.delete"); n != 2 {
		t.Errorf("%d machines were ended, want 2", n)
	}
}

// A list lacks some machines. The driver must request them by name.
func TestLaggingLists(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.Lag(5)
	if m := w.launch(spec("a", 3, onDemand)); len(m) != 3 || m[2].Rank != 2 || m[2].Cluster != "a" || m[0].Launched.IsZero() {
		t.Errorf("%+v", m)
	}
	if err := w.another(nil).Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.none(w.gcp)
}

// Google has forgotten the ID of a request. A repeated launch must buy nothing more, because the machines' names are
// taken.
func TestForgottenRequestIDBuysOnce(t *testing.T) {
	w := newWorld(t, nil)
	s := spec("a", 2, onDemand)
	first := w.launch(s)
	w.gce.Forget()
	w.gce.HideMachines(2)
	second, err := w.another(nil).Launch(t.Context(), s)
	if err != nil || len(second) != 2 || second[0].ID != first[0].ID || len(w.gce.Machines()) != 2 {
		t.Errorf("%v %v", second, err)
	}
}

func TestPartialClusterIsEnded(t *testing.T) {
	w := newWorld(t, nil)
	s := spec("a", 3, spot)
	m := w.launch(s)
	w.gce.FinishPreemption(m[1].ID)
	_, err := w.gcp.Launch(t.Context(), s)
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind != cloud.Capacity || e.Code != "ClusterLost" {
		t.Errorf("%v", err)
	}
	w.none(w.gcp)
	// The same must hold when none of the cluster's machines exist any more.
	if _, err := w.gcp.Launch(t.Context(), s); cloud.KindOf(err) != cloud.Capacity || len(w.gce.Machines()) != 0 {
		t.Errorf("%v, %v", err, w.gce.Machines())
	}
}

// A launch fails late for a temporary reason. A retry must use a new operation, even in a process that has not seen
// the failure.
func TestLateTransientFailureCanBeRetried(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.FailLate(gce.Fault{Reason: "INTERNAL_ERROR", Message: "oops"}, 0)
	s := spec("a", 2, onDemand)
	if _, err := w.gcp.Launch(t.Context(), s); cloud.KindOf(err) != cloud.Transient {
		t.Fatalf("%v", err)
	}
	if m, err := w.another(nil).Launch(t.Context(), s); err != nil || len(m) != 2 {
		t.Errorf("%v %v", m, err)
	}
}

// A launch fails late because a zone has no capacity. A retry must return the same error and buy nothing, even if the
// zone has capacity by then.
func TestLateStockoutIsReturnedAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.SetOutOfStock("us-central1-a", true, false)
	s := spec("a", 2, onDemand)
	for n := range 2 {
		w.gce.SetOutOfStock("us-central1-a", n == 0, false)
		_, err := w.another(nil).Launch(t.Context(), s)
		var e *cloud.Error
		if !errors.As(err, &e) || e.Kind != cloud.Capacity || e.Code != "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS" {
			t.Errorf("%d: %v", n, err)
		}
	}
	w.none(w.gcp)
}

func TestQuotaDependsOnRegionAndMarket(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.SetQuota("us-central1", "CPUS", 3)
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand)); cloud.KindOf(err) != cloud.Quota || !strings.Contains(err.Error(), "CPUS") {
		t.Errorf("%v", err)
	}
	w.launch(spec("b", 2, spot))
}

func TestUnreachableZoneFailsList(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(spec("a", 1, onDemand))
	w.gce.SetUnreachable("europe-west4-a", true)
	if _, err := w.gcp.Machines(t.Context(), ""); cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Errorf("%v", err)
	}
	if m, err := w.gcp.Machines(t.Context(), "a"); err != nil || len(m) != 1 {
		t.Errorf("the cluster is known to be in another zone: %v %v", m, err)
	}
}

func TestListsAreReadPageByPage(t *testing.T) {
	w := newWorld(t, nil)
	gcp.SetPage(w.gcp, 2)
	w.launch(spec("a", 5, onDemand))
	elsewhere := onDemand
	elsewhere.Region, elsewhere.Zone = "us-west1", "us-west1-a"
	w.launch(spec("b", 2, elsewhere))
	if m, err := w.gcp.Machines(t.Context(), ""); err != nil || len(m) != 7 {
		t.Errorf("%d %v", len(m), err)
	}
}

// A machine has shut itself down. It must be listed until it is deleted, because it still costs its disk.
func TestStoppedMachineIsTerminating(t *testing.T) {
	w := newWorld(t, nil)
	m := w.launch(spec("a", 1, onDemand))
	w.gce.FinishPreemption(m[0].ID)
	found, err := w.gcp.Machines(t.Context(), "a")
	if err != nil || len(found) != 1 || found[0].State != cloud.Terminating || found[0].Reason != "exited" {
		t.Fatalf("%+v %v", found, err)
	}
	if err := w.gcp.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.none(w.gcp)
}

func TestLaunchErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *cloud.LaunchSpec)
		kind   cloud.Kind
		words  string
	}{
		"a region that is not configured": {func(_ *world, s *cloud.LaunchSpec) {
			s.Offer.Region, s.Offer.Zone = "asia-east1", "asia-east1-a"
		}, cloud.Quota, "asia-east1"},
		"a zone that Google does not have": {func(_ *world, s *cloud.LaunchSpec) { s.Offer.Zone = "us-central1-z" }, cloud.Quota, "Unknown zone"},
		"no zone":                          {func(_ *world, s *cloud.LaunchSpec) { s.Offer.Zone = "" }, cloud.Invalid, "no zone"},
		"a zone of another region":         {func(_ *world, s *cloud.LaunchSpec) { s.Offer.Zone = "us-west1-a" }, cloud.Invalid, "not in region"},
		"a type that is not sold there": {func(w *world, s *cloud.LaunchSpec) {
			w.gce.Unsell(s.Offer.Zone, s.Offer.InstanceType)
		}, cloud.Capacity, "not sold"},
		"an image that does not exist": {func(_ *world, s *cloud.LaunchSpec) { s.Image = "projects/p/global/images/no-such" }, cloud.Invalid, "no-such"},
		"an image that may not be read": {func(w *world, s *cloud.LaunchSpec) {
			s.Image = "projects/p/global/images/secret"
			w.gce.Deny("compute.images.get", true)
		}, cloud.Invalid, "images/secret"},
		"an image that may not be used": {func(w *world, s *cloud.LaunchSpec) {
			s.Image = "projects/p/global/images/secret"
			w.gce.Deny("compute.images.useReadOnly", true)
		}, cloud.Invalid, "compute.images.useReadOnly"},
		"a deployment's image that may not be read": {func(w *world, _ *cloud.LaunchSpec) {
			w.gce.Deny("compute.images.getFromFamily", true)
			w.gcp = w.another(func(c *gcp.Config) {
				c.Images = map[string]string{"amd64": "projects/p/global/images/family/secret"}
			})
		}, cloud.Quota, "family/secret"},
		"an invalid image name": {func(_ *world, s *cloud.LaunchSpec) { s.Image = "ami-1" }, cloud.Invalid, "want projects/"},
		"an image of another processor": {func(_ *world, s *cloud.LaunchSpec) {
			s.Image = "projects/debian-cloud/global/images/family/debian-12-arm64"
		}, cloud.Invalid, "for arm64"},
		"no image at all": {func(w *world, _ *cloud.LaunchSpec) {
			w.gce.RemoveFamily("debian-cloud/debian-12")
			w.gce.RemoveFamily("debian-cloud/debian-13")
		}, cloud.Quota, "no default image"},
		"an accelerator that cannot be attached": {func(_ *world, s *cloud.LaunchSpec) {
			s.Offer.InstanceType, s.Offer.Accelerator, s.Offer.AccelCount = "n1-standard-4", "H100", 1
		}, cloud.Capacity, "cannot attach H100"},
		"a missing network": {func(w *world, _ *cloud.LaunchSpec) {
			w.gcp = w.another(func(c *gcp.Config) { c.Network = "nowhere" })
		}, cloud.Quota, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *gcp.Config) { c.Regions = []string{"us-west1", "us-central1"} })
			s := spec("a", 1, onDemand)
			c.change(w, &s)
			_, err := w.gcp.Launch(t.Context(), s)
			if cloud.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			w.none(w.gcp)
		})
	}
}

// The image family is retired. The next one must be used.
func TestRetiredImageFamilyFallsBack(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.RemoveFamily("debian-cloud/debian-13")
	w.launch(spec("a", 1, onDemand))
}

// A cluster is terminated during its launch. The launch must end the machines that it gets.
func TestTerminateDuringLaunch(t *testing.T) {
	w := newWorld(t, nil)
	graves := &hook{}
	c := w.another(func(c *gcp.Config) { c.Graves = graves })
	graves.asked = func(n int) bool { return n > 1 } // false before the purchase
	_, err := c.Launch(t.Context(), spec("a", 2, onDemand))
	if cloud.KindOf(err) != cloud.Invalid || err == nil {
		t.Errorf("%v", err)
	}
	w.none(c)
}

type hook struct {
	asked func(int) bool
	n     int
}

func (h *hook) Bury(context.Context, string) error { return nil }
func (h *hook) Buried(context.Context, string) (bool, error) {
	h.n++
	return h.asked(h.n), nil
}
