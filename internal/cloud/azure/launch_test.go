package azure_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// recorder records the bodies of PUT requests.
type recorder struct {
	http.Handler
	mu     sync.Mutex
	bodies map[string]string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodPut {
		b, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(b)))
		r.mu.Lock()
		r.bodies[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]] = string(b)
		r.mu.Unlock()
	}
	r.Handler.ServeHTTP(w, req)
}

// recorded returns a world whose requests are recorded.
func recorded(t *testing.T, change func(*azure.Config)) (*world, *recorder) {
	w := newWorld(t, arm.Config{}, change)
	r := &recorder{Handler: w.arm, bodies: map[string]string{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	cfg := w.cfg
	cfg.Options = arm.Options(server.URL)
	w.azure = w.driver(cfg)
	return w, r
}

// body returns the body of the request for a rank's machine.
func (r *recorder) body(t *testing.T, rank string) (text string, vm map[string]any) {
	t.Helper()
	for name, b := range r.bodies {
		if strings.HasSuffix(name, "-"+rank) && strings.Contains(b, "hardwareProfile") {
			if err := json.Unmarshal([]byte(b), &vm); err != nil {
				t.Fatal(err)
			}
			return b, vm
		}
	}
	t.Fatalf("no machine of rank %s among %d bodies", rank, len(r.bodies))
	return "", nil
}

// A new network must state whether machines without a public address may use Azure's default outbound access, because
// networks of API versions after 31 March 2026 have none by default. Source:
// learn.microsoft.com/azure/virtual-network/ip-services/ default-outbound-access; the property is in the API since
// 2023-05-01 (change log of virtualNetworks/subnets).
func TestNetworkSaysWhetherItHasDefaultOutboundAccess(t *testing.T) {
	for _, none := range []bool{false, true} {
		w, r := recorded(t, func(c *azure.Config) { c.NoPublicAddress = none })
		w.launch(spec("a", onDemand, 1))
		found := false
		for _, body := range r.bodies {
			found = found || strings.Contains(body, fmt.Sprintf(`"defaultOutboundAccess":%v`, none))
		}
		if !found {
			t.Errorf("no public address %v: the network does not say it", none)
		}
	}
}

func at(v any, path ...string) any {
	for _, p := range path {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func TestLaunchRequestMatchesSpec(t *testing.T) {
	w, r := recorded(t, func(c *azure.Config) {
		c.Tags = map[string]string{"costCentre": "7"}
		c.Environment = map[string]string{"HTTPS_PROXY": "http://proxy:3128"}
	})
	s := spec("a", spot, 2)
	s.MaxUSDPerHour = 0.0273415
	s.DiskGiB = 50.5
	machines := w.launch(s)
	if machines[0].Offer.Zone != spot.Zone || machines[0].Account != arm.DefaultSubscription || machines[1].Rank != 1 ||
		!machines[0].Offer.Spot || machines[0].State != cloud.Running || machines[0].Offer.USDPerHour != spot.USDPerHour {
		t.Errorf("%+v", machines)
	}
	text, vm := r.body(t, "1")
	p := at(vm, "properties")
	nic := at(p, "networkProfile", "networkInterfaceConfigurations")
	ip := at(nic, "properties", "ipConfigurations", "properties", "publicIPAddressConfiguration")
	for name, pair := range map[string][2]any{
		"priority": {at(p, "priority"), "Spot"}, "eviction": {at(p, "evictionPolicy"), "Delete"},
		"bid": {at(p, "billingProfile", "maxPrice"), 0.02735}, "disk": {at(p, "storageProfile", "osDisk", "diskSizeGB"), 51.0},
		"disk is deleted with it": {at(p, "storageProfile", "osDisk", "deleteOption"), "Delete"},
		"interface is deleted":    {at(nic, "properties", "deleteOption"), "Delete"},
		"address is deleted":      {at(ip, "properties", "deleteOption"), "Delete"},
		"logical zone":            {vm["zones"].([]any)[0], "2"}, "a required tag": {at(vm, "tags", "costCentre"), "7"},
		"cluster": {at(vm, "tags", "tradewind:cluster"), "a"}, "rank": {at(vm, "tags", "tradewind:rank"), "1"},
		"no passwords": {at(p, "osProfile", "linuxConfiguration", "disablePasswordAuthentication"), true},
		"label":        {at(vm, "tags", "tradewind:task"), "train/it"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	data, err := base64.StdEncoding.DecodeString(at(p, "osProfile", "customData").(string))
	if err != nil || !strings.Contains(string(data), "token-a-1") || strings.Contains(string(data), "token-a-0") ||
		!strings.Contains(string(data), "HTTPS_PROXY") {
		t.Errorf("custom data %.200s, %v", data, err)
	}
	if strings.Contains(strings.ReplaceAll(text, at(p, "osProfile", "customData").(string), ""), "token-") {
		t.Error("a token is in a readable part of the request")
	}
	if _, first := r.body(t, "0"); at(first, "properties", "osProfile", "linuxConfiguration", "ssh", "publicKeys", "keyData") ==
		at(p, "osProfile", "linuxConfiguration", "ssh", "publicKeys", "keyData") {
		t.Error("two machines have the same key")
	}
	w.terminate("a")
	w.clean()
}

func TestNoPublicAddressAndCustomSubnet(t *testing.T) {
	w, r := recorded(t, func(c *azure.Config) { c.NoPublicAddress = true })
	w.launch(spec("a", onDemand, 1))
	subnet := at(mustBody(t, r), "properties", "networkProfile", "networkInterfaceConfigurations", "properties", "ipConfigurations", "properties", "subnet", "id").(string)
	own := w.cfg
	own.Subnets, own.NoPublicAddress = map[string]string{"eastus": subnet}, true
	before := w.arm.Calls("GET resource")
	if _, err := w.driver(own).Launch(t.Context(), spec("b", onDemand, 1)); err != nil || w.arm.Calls("GET resource") != before {
		t.Errorf("%v; the driver looked for a network", err)
	}
	if text, _ := r.body(t, "0"); strings.Contains(text, "publicIPAddress") {
		t.Errorf("the machine has a public address: %s", text)
	}
}

func mustBody(t *testing.T, r *recorder) map[string]any {
	_, vm := r.body(t, "0")
	return vm
}

func TestStockoutIsCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		stock arm.Shortage
		offer apitypes.Offer
		code  string
		puts  int
	}{
		"at once":         {arm.Shortage{Size: "Standard_D2s_v5"}, onDemand, "SkuNotAvailable", 1},
		"late":            {arm.Shortage{Location: "eastus", Late: true}, onDemand, "AllocationFailed", 3},
		"a zone, late":    {arm.Shortage{Zone: "2", Late: true}, spot, "ZonalAllocationFailed", 3},
		"not for us":      {arm.Shortage{Zone: "9"}, apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_ND96isr_H100_v5"}, "SkuNotAvailable", 1},
		"no such zone":    {arm.Shortage{Zone: "9"}, apitypes.Offer{Cloud: "azure", Region: "eastus", Zone: "eastus-az9", InstanceType: "Standard_D2s_v5"}, "NoSuchZone", 0},
		"no such type":    {arm.Shortage{Zone: "9"}, apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_Z9"}, "InvalidParameter", 1},
		"not in the zone": {arm.Shortage{Zone: "9"}, apitypes.Offer{Cloud: "azure", Region: "eastus", Zone: "2", InstanceType: "Standard_NC4as_T4_v3"}, "SkuNotAvailable", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, arm.Config{}, nil)
			w.arm.Dry(c.stock)
			_, err := w.azure.Launch(t.Context(), spec("a", c.offer, 3))
			var typed *cloud.Error
			if !errors.As(err, &typed) || typed.Kind != cloud.Capacity || typed.Code != c.code || typed.Message == "" {
				t.Errorf("%v", err)
			}
			if n := w.arm.Calls("PUT machine"); n != c.puts {
				t.Errorf("%d machines were requested, want %d", n, c.puts)
			}
			// at most one call for each machine: a missing machine is no error to retry
			if n := w.arm.Calls("DELETE machine"); c.puts == 1 && n > 3 {
				t.Errorf("%d deletions for three machines", n)
			}
			w.clean() // without a Terminate
			w.arm.Refill()
		})
	}
}

func TestBidBelowPriceIsCapacity(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	s := spec("a", spot, 1)
	s.MaxUSDPerHour = 0.001
	if _, err := w.azure.Launch(t.Context(), s); cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "max price") {
		t.Error(err)
	}
}

func TestQuotasAndPoliciesAreQuota(t *testing.T) {
	w := newWorld(t, arm.Config{Limits: map[string]int{"cores": 4, "lowPriorityCores": 2}}, nil)
	for name, o := range map[string]apitypes.Offer{"on demand": onDemand, "spot": spot} {
		if _, err := w.azure.Launch(t.Context(), spec("q-"+strings.Fields(name)[0], o, 3)); cloud.KindOf(err) != cloud.Quota || !strings.Contains(err.Error(), "quota") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.clean()
	elsewhere := onDemand
	elsewhere.Region = "northcentralus"
	if _, err := w.azure.Launch(t.Context(), spec("r", elsewhere, 1)); cloud.KindOf(err) != cloud.Quota {
		t.Error(err)
	}
	w.arm.Make(arm.Trouble{Kind: "PUT machine", Times: 1, Fault: &arm.Fault{Status: 403, Code: "RequestDisallowedByPolicy", Message: "Resource was disallowed by policy 'allowed-sizes'."}})
	if _, err := w.azure.Launch(t.Context(), spec("p", onDemand, 1)); cloud.KindOf(err) != cloud.Quota || !strings.Contains(err.Error(), "allowed-sizes") {
		t.Error(err)
	}
}

// A process ended during a launch and left some machines. The next launch must continue with them.
func TestLaunchContinuesEarlierLaunch(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Make(arm.Trouble{Kind: "PUT machine", After: 2, Times: 1, Fault: &arm.Fault{Status: 429, Code: "TooManyRequests", Message: "slow down", RetryAfter: time.Minute}})
	_, err := w.azure.Launch(t.Context(), spec("a", onDemand, 4))
	var typed *cloud.Error
	if !errors.As(err, &typed) || typed.Kind != cloud.Throttled || typed.RetryAfter != time.Minute {
		t.Fatal(err)
	}
	if n := len(w.arm.Left()); n != 3 {
		t.Fatalf("%d machines", n)
	}
	made := w.arm.Calls("PUT machine")
	machines, err := w.driver(w.cfg).Launch(t.Context(), spec("a", onDemand, 4))
	if err != nil || len(machines) != 4 || w.arm.Calls("PUT machine") != made+1 {
		t.Errorf("%d machines with %d more calls, %v", len(machines), w.arm.Calls("PUT machine")-made, err)
	}
}

// An operation fails, and no process waited for it. The next launch must find the failure through the machine, and
// undo the launch.
func TestFailedEarlierLaunchIsUndone(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.launch(spec("z", onDemand, 1)) // creates the network
	w.arm.FailLate(1, 1, &arm.Fault{Status: 409, Code: "AllocationFailed", Message: "Allocation failed. Sorry."})
	ctx, cancel := context.WithCancel(t.Context())
	w.arm.Make(arm.Trouble{Kind: "GET operation", Times: -1, Fault: &arm.Fault{Status: 500, Code: "InternalServerError", Message: "later"}})
	_, err := w.azure.Launch(ctx, spec("a", onDemand, 2))
	cancel()
	if cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	w.arm.Settle()
	_, err = w.driver(w.cfg).Launch(t.Context(), spec("a", onDemand, 2))
	if cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "Sorry") {
		t.Error(err)
	}
	w.terminate("z")
	w.clean()
}

func TestClusterWithLostMachineIsNotRelaunched(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	machines := w.launch(spec("a", spot, 2))
	if err := w.arm.Evict(machines[1].ID); err != nil {
		t.Fatal(err)
	}
	left, err := w.azure.Machines(t.Context(), "a")
	if err != nil || len(left) != 1 || left[0].ID != machines[0].ID {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := w.azure.Launch(t.Context(), spec("a", spot, 2)); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("relaunch by the same process: %v", err)
	}
	w.clean()

	machines = w.launch(spec("b", spot, 2))
	if err := w.arm.Evict(machines[1].ID); err != nil {
		t.Fatal(err)
	}
	other := w.driver(w.cfg)
	other.Later(time.Hour)
	if _, err := other.Launch(t.Context(), spec("b", spot, 2)); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("relaunch by another process, an hour later: %v", err)
	}
	w.clean()
}

// A machine has shut itself down. It must be deleted, because Azure keeps and bills it.
func TestStoppedMachineIsDeleted(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	machines := w.launch(spec("a", onDemand, 2))
	if err := w.arm.Stop(machines[0].ID); err != nil {
		t.Fatal(err)
	}
	one, err := w.azure.Machines(t.Context(), "a")
	if err != nil || one[0].State != cloud.Terminating || one[0].Reason != "exited" || one[1].State != cloud.Running {
		t.Errorf("%+v, %v", one, err)
	}
	all, err := w.azure.Machines(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].State != cloud.Terminated || all[0].Reason != "exited" {
		t.Errorf("%+v, %v", all, err)
	}
	w.arm.Settle()
	if left := w.arm.Left(); len(left) != 1 {
		t.Errorf("%v", left)
	}
	for _, b := range w.arm.Bills() {
		if b.ID == machines[0].ID && b.To.IsZero() {
			t.Error("the machine is still billed")
		}
	}
}

// The right to read the subscription's machines is missing. The machines of the resource group must still be listed.
func TestMachinesWithoutPowerStates(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.launch(spec("a", onDemand, 1))
	w.arm.Make(arm.Trouble{Kind: "GET statuses", Times: -1, Fault: &arm.Fault{Status: 403, Code: "AuthorizationFailed", Message: "no"}})
	if all, err := w.azure.Machines(t.Context(), ""); err != nil || len(all) != 1 || all[0].State != cloud.Running {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestSweepRemovesLeftovers(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Strand(3)
	w.launch(spec("a", onDemand, 2))
	w.launch(spec("b", spot, 1))
	keep := w.launch(spec("c", onDemand, 1))
	w.terminate("a")
	w.terminate("b")
	for n := 0; len(w.arm.Left()) != 1 && n < 10; n++ {
		w.terminate("a")
	}
	finish(w)
	if left := w.arm.Leftovers(); len(left) != 9 {
		t.Fatalf("leftovers before the sweep: %v", left)
	}
	removed, err := w.azure.Sweep(t.Context())
	if cloud.KindOf(err) != cloud.Transient || len(removed) >= 9 {
		t.Errorf("an interface stays reserved for its machine for three minutes, but the sweep removed %v, %v", removed, err)
	}
	if again, err := w.azure.Sweep(t.Context()); err != nil || len(removed)+len(again) != 9 {
		t.Errorf("%v and %v, %v", removed, again, err)
	}
	w.terminate("c")
	w.clean()
	if len(keep) != 1 || len(w.arm.Bills()) != 4 {
		t.Errorf("%v", w.arm.Bills())
	}
}

// finish lets operations end, while network interfaces stay reserved.
func finish(w *world) {
	for _, name := range []string{"a", "b"} {
		_, _ = w.azure.Machines(w.Context(), name)
	}
	for range 4 {
		_, _ = w.azure.Machines(w.Context(), "a")
		_, _ = w.azure.Machines(w.Context(), "b")
	}
}

// A cluster was terminated and has left resources. Ten minutes later, the termination of any other cluster must
// remove them as well.
func TestTerminateSweepsDeploymentPeriodically(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Strand(1)
	w.launch(spec("a", onDemand, 1))
	w.terminate("a")
	w.arm.Settle()
	if len(w.arm.Leftovers()) != 3 {
		t.Fatalf("%v", w.arm.Leftovers())
	}
	w.terminate("b")
	if len(w.arm.Leftovers()) != 3 {
		t.Errorf("swept before ten minutes: %v", w.arm.Leftovers())
	}
	w.azure.Later(11 * time.Minute)
	w.terminate("c")
	if left := w.arm.Leftovers(); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// The last cluster of a deployment was terminated and has left its disk, and no other cluster is terminated after it.
// The list of the deployment's machines must remove the disk; a broker requests it every few minutes.
func TestListingTheDeploymentSweepsIt(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Strand(1)
	w.launch(spec("a", onDemand, 1))
	w.terminate("a")
	w.arm.Settle()
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{9 * time.Minute, 3}, {2 * time.Minute, 0}} {
		w.azure.Later(c.after)
		if _, err := w.azure.Machines(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if left := w.arm.Leftovers(); len(left) != c.left {
			t.Errorf("%v later: %v", c.after, left)
		}
	}
}

// When the cloud is removed, leftovers must be removed at once, not by a later sweep.
func TestCleanRemovesLeftovers(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Strand(1)
	w.launch(spec("a", onDemand, 1))
	w.terminate("a")
	w.arm.Settle()
	var deleted []string
	if err := w.azure.Clean(t.Context(), func(name string) { deleted = append(deleted, name) }); err != nil {
		t.Fatal(err)
	}
	if left := w.arm.Leftovers(); len(left) != 0 || len(deleted) != 3 {
		t.Errorf("deleted %v, left: %v", deleted, left)
	}
}

func TestNewRejectsIncompleteConfig(t *testing.T) {
	good := azure.Config{Deployment: "d", Subscription: "s", Regions: []string{"r"}, Credential: arm.Credential{}, Agents: driver.Agents{"": digest}}
	for name, spoil := range map[string]func(*azure.Config){
		"no deployment": func(c *azure.Config) { c.Deployment = "" }, "no subscription": func(c *azure.Config) { c.Subscription = "" },
		"no regions": func(c *azure.Config) { c.Regions = nil }, "no credential": func(c *azure.Config) { c.Credential = nil },
	} {
		c := good
		spoil(&c)
		if _, err := azure.New(c); !errors.Is(err, azure.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := azure.New(good)
	if err != nil || c.Name() != "azure" || !slices.Equal(c.Regions(), []string{"r"}) {
		t.Errorf("%v", err)
	}
}

// The network was removed. It must be created again at the second try.
func TestRemovedNetworkIsRecreated(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.launch(spec("a", onDemand, 1))
	w.terminate("a")
	w.arm.Settle()
	w.arm.RemoveResource("Microsoft.Network/virtualNetworks")
	if _, err := w.azure.Launch(t.Context(), spec("b", onDemand, 1)); cloud.KindOf(err) != cloud.Transient {
		t.Error(err)
	}
	w.launch(spec("b", onDemand, 1))
}

// Azure asks to wait for an hour. The error must return that Retry-After to the caller, and the SDK must not wait.
func TestLongRetryAfterIsReturned(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Make(arm.Trouble{Kind: "GET machine", Times: -1, Fault: &arm.Fault{Status: 429, Code: "TooManyRequests", Message: "slow down", RetryAfter: time.Hour}})
	var typed *cloud.Error
	if _, err := w.azure.Launch(t.Context(), spec("a", onDemand, 1)); !errors.As(err, &typed) || typed.Kind != cloud.Throttled || typed.RetryAfter != time.Hour {
		t.Error(err)
	}
	if n := w.arm.Calls("GET machine"); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// Two processes launch the same cluster. The second one checks for machines before the first one has created any, and
// requests the machine after it. Only one machine may be bought.
func TestConcurrentLaunchesBuyOnce(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	first := w.launch(spec("a", onDemand, 1))
	w.arm.Make(arm.Trouble{Kind: "GET machine", Times: 1, Fault: &arm.Fault{Status: 404, Code: "ResourceNotFound", Message: "not yet"}})
	second, err := w.driver(w.cfg).Launch(t.Context(), spec("a", onDemand, 1))
	if err != nil || len(second) != 1 || second[0].ID != first[0].ID || len(w.arm.Left()) != 1 || w.arm.Calls("PUT machine") != 2 {
		t.Errorf("%+v and %+v with %d calls, %v", first, second, w.arm.Calls("PUT machine"), err)
	}
}

// Another process terminates a cluster during its launch. The launch must end the machines.
func TestTerminateDuringLaunch(t *testing.T) {
	graves := &overtaken{}
	w := newWorld(t, arm.Config{}, func(c *azure.Config) { c.Graves = graves })
	if _, err := w.azure.Launch(t.Context(), spec("a", onDemand, 2)); cloud.KindOf(err) != cloud.Invalid {
		t.Error(err)
	}
	w.clean()
}

// overtaken is a list of terminated clusters that has every cluster from the second query on.
type overtaken struct{ asked int }

func (o *overtaken) Bury(context.Context, string) error { return nil }

func (o *overtaken) Buried(context.Context, string) (bool, error) {
	o.asked++
	return o.asked > 1, nil
}
