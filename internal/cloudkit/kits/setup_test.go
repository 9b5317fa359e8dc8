package kits

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
)

// Setup must print its commands, create the missing resources once, find them the second time, and remove them.
// Without a named identity it must create nothing.
func TestSetupCreatesOnce(t *testing.T) {
	google, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, z := httptest.NewServer(google), httptest.NewServer(arm.New(arm.Config{Group: "other"}))
	t.Cleanup(g.Close)
	t.Cleanup(z.Close)
	for name, c := range map[string]struct {
		settings cloudkit.Settings
		named    func(*cloudkit.Settings)
		prints   string
	}{
		"gcp": {
			cloudkit.Settings{Project: "demo", Endpoint: g.URL},
			func(s *cloudkit.Settings) { s.Member = "user:ada@example.com" }, "gcloud iam roles create",
		},
		"azure": {
			cloudkit.Settings{Subscription: arm.DefaultSubscription, Regions: []string{"eastus"}, Endpoint: z.URL},
			func(s *cloudkit.Settings) { s.Principal = "8d10da13-8125-4ba9-a717-bf7490507b3e" }, "az role definition create",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kits := All()
			kit := kits[slices.Index(cloudkit.Names(kits), name)]
			request := cloudkit.Request{Settings: c.settings, Deployment: "tradewind-0123456789", Lookup: func(string) string { return "" }}
			open := func() cloudkit.Setup {
				t.Helper()
				s, err := kit.Setup(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			steps := func() (all []string) {
				t.Helper()
				made, err := open().Make(t.Context(), func(step string) { all = append(all, step) })
				if err != nil {
					t.Fatal(err)
				}
				if name == "gcp" && len(all) > 0 && (made.ServiceAccount == "" || made.Network == "") {
					t.Errorf("settings %+v", made)
				}
				return all
			}
			var printed strings.Builder
			if err := open().Print(&printed); err != nil || !strings.Contains(printed.String(), c.prints) {
				t.Errorf("%v: prints %s", err, printed.String())
			}
			if got := steps(); len(got) > 0 {
				t.Errorf("created something without an identity: %v", got)
			}
			c.named(&request.Settings)
			first, second := steps(), steps()
			if !slices.ContainsFunc(first, func(s string) bool { return strings.HasSuffix(s, ": made") }) {
				t.Errorf("first %v", first)
			}
			if slices.ContainsFunc(second, func(s string) bool { return strings.HasSuffix(s, ": made") }) {
				t.Errorf("second run: %v", second)
			}
			removed := 0
			if err := open().Remove(t.Context(), func(string) { removed++ }); err != nil || removed == 0 {
				t.Errorf("removed %d, %v", removed, err)
			}
		})
	}
}

// The settings name a network and a service account. The machines must use them.
func TestGoogleSetupKeepsNamedResources(t *testing.T) {
	google, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(google)
	t.Cleanup(server.Close)
	kits := All()
	kit := kits[slices.Index(cloudkit.Names(kits), "gcp")]
	for _, named := range []cloudkit.Settings{
		{Network: "mine"}, {Subnetwork: "mine"}, {ServiceAccount: "mine@demo.iam.gserviceaccount.com"},
	} {
		s := named
		s.Project, s.Endpoint, s.Member = "demo", server.URL, "user:ada@example.com"
		setup, err := kit.Setup(t.Context(), cloudkit.Request{Settings: s, Deployment: "tw", Lookup: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		made, err := setup.Make(t.Context(), func(string) {})
		if err != nil || made.Subnetwork != named.Subnetwork || named.ServiceAccount != "" && made.ServiceAccount != named.ServiceAccount ||
			(named.Network+named.Subnetwork != "" && made.Network != named.Network) {
			t.Errorf("%+v became %+v, %v", named, made, err)
		}
	}
}

// The notifications about a bucket's files arrive at a subscription. If the settings name an existing one, nothing
// may be created.
func TestGoogleSetupUsesCustomSubscription(t *testing.T) {
	google, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := httptest.NewServer(google)
	t.Cleanup(g.Close)
	kits := All()
	kit := kits[slices.Index(cloudkit.Names(kits), "gcp")]
	for pull, makes := range map[string]bool{"": true, "tradewind-tradewind-0123456789": true, "mine": false} {
		s := cloudkit.Settings{Project: "demo", Endpoint: g.URL, Member: "user:ada@example.com", Regions: []string{"us-central1"},
			DAGs: "gs://acme-jobs/dags", Pull: pull}
		setup, err := kit.Setup(t.Context(), cloudkit.Request{Settings: s, Deployment: "tradewind-0123456789",
			Lookup: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder
		if err := setup.Print(&printed); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(printed.String(), "pubsub subscriptions create"); got != makes {
			t.Errorf("--pull %q: creates a subscription: %v\n%s", pull, got, printed.String())
		}
	}
}
