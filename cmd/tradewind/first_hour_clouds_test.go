package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// testFirstHourGoogle rehearses Google Cloud. A preemption is an ACPI shutdown, rights and accounts take effect late,
// and a new project lists its machines late.
func testFirstHourGoogle(t *testing.T, s *shell) {
	google, err := gce.New(gce.Config{Dir: t.TempDir(), Zones: []string{"us-central1-a", "us-central1-b"},
		Price: func(gce.Bill) float64 { return 0.1 }})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(google)
	t.Cleanup(web.Close)
	t.Cleanup(google.Close)
	google.Propagate(2)
	google.Lag(2)
	runFirstHour(t, s, &firstHour{
		cloud: "gcp",
		add: "--project demo --regions us-central1 --member user:ada@example.com --endpoint-url " + web.URL +
			" --proofs " + web.URL + "/oauth2/v3/certs",
		files: map[string]string{"gcp.csv": table(
			"n2-standard-2,2,8,,,us-central1,us-central1-a,0.0971,0.0232", "n2-standard-2,2,8,,,us-central1,us-central1-b,0.0981,0.0242")},
		running: func() (all []string) {
			for _, m := range google.Machines() {
				if m.Status != "TERMINATED" {
					all = append(all, m.ID)
				}
			}
			return all
		},
		interrupt: func(id string) { google.Preempt(id) },
		// The interrupted machine was in the other zone, which the broker avoids for a while.
		dry: func(is bool) { google.SetOutOfStock("us-central1-b", is, false) },
		quota: func(used bool) {
			for _, metric := range []string{"PREEMPTIBLE_CPUS", "N2_CPUS", "CPUS"} {
				google.SetQuota("us-central1", metric, map[bool]float64{true: 0, false: 100}[used])
			}
		},
		left: func() []string { return append(ids(google.Created()), google.Leftovers()...) },
		offer: apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "n2-standard-2",
			USDPerHour: 0.0971},
		age: google.Age,
		follow: func(advice string) bool {
			name := between(advice, "gcloud services disable ", " --project demo")
			google.DisableService(name)
			return name != ""
		},
	})
}

// testFirstHourAzure rehearses Azure. Machines prove their identity with documents whose certificates are fetched,
// providers are registered late, and Scheduled Events announce an eviction.
func testFirstHourAzure(t *testing.T, s *shell) {
	authority, err := imdstest.NewAzureAuthority()
	if err != nil {
		t.Fatal(err)
	}
	azure := arm.New(arm.Config{
		Group: "other", Dir: t.TempDir(), Authority: authority, Within: time.Second,
		Locations: []arm.Location{{Name: "eastus", Zones: map[string]string{"1": "eastus-az1", "2": "eastus-az2"}}},
		Sizes: []arm.Size{{Name: "Standard_D2s_v5", Family: "standardDSv5Family", VCPU: 2, MemoryGiB: 8, Zones: []string{"1", "2"},
			USD: 0.1, SpotUSD: 0.03}},
	})
	const buyer = "11111111-2222-3333-4444-555555555555"
	azure.AddPrincipal(buyer, "User")
	web := httptest.NewServer(azure)
	t.Cleanup(web.Close)
	t.Cleanup(azure.Close)
	azure.Lag(2)
	azure.Unregister("Microsoft.Network")
	authority.Issuers = web.URL + arm.IssuersPath
	certificates := filepath.Join(t.TempDir(), "certificates.pem")
	if err := os.WriteFile(certificates, []byte(authority.Certificates()), 0o600); err != nil {
		t.Fatal(err)
	}
	limits := []string{"cores", "lowPriorityCores", "standardDSv5Family"}
	machines := func() (all []string) {
		for _, b := range azure.Bills() {
			if b.To.IsZero() {
				all = append(all, b.Name)
			}
		}
		return all
	}
	runFirstHour(t, s, &firstHour{
		cloud: "azure",
		add: "--subscription " + arm.DefaultSubscription + " --regions eastus --principal " + buyer + " --endpoint-url " + web.URL +
			" --proofs " + certificates,
		files: map[string]string{"azure.csv": table(
			"Standard_D2s_v5,2,8,,,eastus,eastus-az1,0.1,0.03", "Standard_D2s_v5,2,8,,,eastus,eastus-az2,0.1,0.031")},
		running: machines,
		interrupt: func(name string) {
			if err := azure.Announce(name, time.Now().Add(30*time.Second)); err != nil {
				t.Error(err)
			}
			go func() {
				time.Sleep(15 * time.Second)
				_ = azure.Evict(name) // the machine may have ended itself
			}()
		},
		dry: func(is bool) {
			if azure.Refill(); is {
				azure.Dry(arm.Shortage{Location: "eastus", Zone: "2"})
			}
		},
		quota: func(used bool) {
			for _, name := range limits {
				azure.Limit(name, map[bool]int{true: 0, false: 100}[used])
			}
		},
		left: func() []string {
			all := append(ids(azure.Resources()), azure.Leftovers()...)
			if azure.HasGroup() {
				all = append(all, "group")
			}
			for _, namespace := range []string{"Microsoft.Compute", "Microsoft.Network"} {
				if azure.Registered(namespace) {
					all = append(all, "registration for "+namespace)
				}
			}
			slices.Sort(all)
			return all
		},
		offer: apitypes.Offer{Cloud: "azure", Region: "eastus", Zone: "eastus-az1", InstanceType: "Standard_D2s_v5",
			USDPerHour: 0.1},
		strand: func() { azure.Strand(1) },
		age:    azure.Age,
		follow: func(advice string) bool {
			namespace := between(advice, "az provider unregister --namespace ", " --subscription "+arm.DefaultSubscription)
			azure.Unregister(namespace)
			return namespace != ""
		},
	})
}

// testFirstHourLambda rehearses Lambda's cloud, which has no spot machines.
func testFirstHourLambda(t *testing.T, s *shell) {
	account := lambdacloud.New(lambdacloud.Config{Dir: t.TempDir(), Fault: func(err error) { t.Error(err) }})
	web := httptest.NewServer(account)
	t.Cleanup(web.Close)
	t.Cleanup(account.Close)
	account.Lag(2)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(lambdacloud.DefaultKey), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "LAMBDA_API_URL="+web.URL)
	const kind = "cpu_4x_general"
	runFirstHour(t, s, &firstHour{
		cloud: "lambda", add: "--regions us-east-1,us-west-2 --key-file " + key,
		files:   map[string]string{"lambda.csv": table(kind+",4,16,,,us-east-1,,0.2,", kind+",4,16,,,us-west-2,,0.21,")},
		running: account.LiveMachines,
		dry:     func(is bool) { account.SetOutOfStock(kind, "us-east-1", is) },
		quota: func(used bool) {
			if used { // the emulator's own quota counts machines; this must refuse the first one
				account.FailLaunch(0, lambdacloud.FailureOf("global/quota-exceeded"))
			}
		},
		left:  account.SSHKeys,
		offer: apitypes.Offer{Cloud: "lambda", Region: "us-west-2", InstanceType: kind, USDPerHour: 0.21},
	})
}
