package setup_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp/setup"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

type world struct {
	*testing.T
	gce *gce.Cloud
	cfg setup.Config
	url string
}

func newWorld(t *testing.T, change func(*setup.Config)) *world {
	t.Helper()
	emulator, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	emulator.Disable("cloudresourcemanager.googleapis.com", true) // as in a new project
	server := httptest.NewServer(emulator)
	t.Cleanup(func() {
		server.Close()
		emulator.Close()
		for _, f := range emulator.Faults() {
			t.Errorf("not as in Google's documentation: %s", f)
		}
	})
	w := &world{T: t, gce: emulator, url: server.URL, cfg: setup.Config{
		Deployment: "test", Project: "demo", Member: "user:a@example.com",
	}}
	w.cfg.Cloud = w.driver("default", "")
	if change != nil {
		change(&w.cfg)
	}
	return w
}

func (w *world) driver(network, account string) *gcp.Cloud {
	return gcp.New(gcp.Config{
		Deployment: "test", Project: "demo", Endpoint: w.url, Network: network, ServiceAccount: account,
		Agents: driver.Agents{"": strings.Repeat("a", 64)},
		Client: []option.ClientOption{option.WithHTTPClient(&http.Client{})},
	})
}

func (w *world) setup() *setup.Setup {
	w.Helper()
	s, err := setup.New(w.cfg)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// add runs Add, and returns the steps that changed something and the number of all steps.
func (w *world) add(s *setup.Setup) (made []string, all int) {
	w.Helper()
	if err := s.Add(w.Context(), func(c setup.Change) {
		all++
		if c.Made {
			made = append(made, c.Step)
		}
	}); err != nil {
		w.Fatal(err)
	}
	return made, all
}

func federated(c *setup.Config) {
	c.Member, c.AWSAccount, c.AWSRoles, c.TPUs = "", "123456789012", []string{"tradewind-provision", "tradewind-reconcile"}, true
}

func TestAddIsIdempotent(t *testing.T) {
	for name, change := range map[string]func(*setup.Config){"a user": nil, "functions on AWS": federated} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			s := w.setup()
			made, all := w.add(s)
			if len(made) != all || all != len(s.Print()) {
				t.Errorf("%d of %d made: %v", len(made), all, made)
			}
			before := w.gce.Created()
			for _, want := range []string{"network tradewind-test", "firewall tradewind-test-machines", "role tradewind_test",
				"account test-machines@demo.iam.gserviceaccount.com", "service compute.googleapis.com"} {
				if !before[want] {
					t.Errorf("no %s in %v", want, before)
				}
			}
			if made, _ := w.add(w.setup()); len(made) > 0 || len(w.gce.Created()) != len(before) {
				t.Errorf("the second time made %v", made)
			}
		})
	}
}

func TestAddGrantsMinimalRights(t *testing.T) {
	w := newWorld(t, federated)
	s := w.setup()
	w.add(s)
	const broker = "serviceAccount:test-broker@demo.iam.gserviceaccount.com"
	for _, b := range [][3]string{
		{"projects/demo", "projects/demo/roles/tradewind_test", broker},
		{"projects/demo/serviceAccounts/test-machines@demo.iam.gserviceaccount.com", "roles/iam.serviceAccountUser", broker},
		{"projects/demo/serviceAccounts/test-broker@demo.iam.gserviceaccount.com", "roles/iam.workloadIdentityUser",
			"principalSet://iam.googleapis.com/projects/100000000001/locations/global/workloadIdentityPools/tradewind-test/attribute.aws_role/arn:aws:sts::123456789012:assumed-role/tradewind-provision"},
	} {
		if !w.gce.HasRole(b[0], b[1], b[2], false) {
			t.Errorf("%s does not have %s on %s", b[2], b[1], b[0])
		}
	}
	for _, role := range []string{"projects/demo/roles/tradewind_test", "roles/editor"} {
		if w.gce.HasRole("projects/demo", role, "serviceAccount:test-machines@demo.iam.gserviceaccount.com", false) {
			t.Error("machines have a role")
		}
	}
	text, err := s.Credentials()
	var c map[string]any
	if err != nil || json.Unmarshal(text, &c) != nil || c["type"] != "external_account" || strings.Contains(string(text), "private_key") ||
		!strings.HasSuffix(c["audience"].(string), "projects/100000000001/locations/global/workloadIdentityPools/tradewind-test/providers/aws-roles") {
		t.Errorf("%s %v", text, err)
	}
}

// The role must let machines boot from custom images of the project.
func TestRoleAllowsCustomImages(t *testing.T) {
	w := newWorld(t, nil)
	if text := strings.Join(w.setup().Print(), "\n"); !strings.Contains(text, "compute.images.get,compute.images.getFromFamily,compute.images.useReadOnly") {
		t.Errorf("%s", text)
	}
}

// A network and an account are configured. They must be used and none created, and the buyer must get the right to
// give machines the account.
func TestCustomNetworkAndAccount(t *testing.T) {
	w := newWorld(t, func(c *setup.Config) {
		c.Network, c.ServiceAccount = "mine", "mine@demo.iam.gserviceaccount.com"
	})
	s := w.setup()
	w.add(s)
	for name := range w.gce.Created() {
		if strings.HasPrefix(name, "network ") || strings.HasPrefix(name, "firewall ") || strings.HasPrefix(name, "account ") {
			t.Errorf("made: %s", name)
		}
	}
	if s.Network() != "mine" || s.MachinesAccount() != "mine@demo.iam.gserviceaccount.com" {
		t.Errorf("%s, %s", s.Network(), s.MachinesAccount())
	}
	if !w.gce.HasRole("projects/demo/serviceAccounts/mine@demo.iam.gserviceaccount.com", "roles/iam.serviceAccountUser", "user:a@example.com", false) {
		t.Error("the buyer may not give machines the account")
	}
	w.cfg.Network, w.cfg.ServiceAccount = "tradewind-test", "test-machines@demo.iam.gserviceaccount.com" // as in the saved settings
	if made, _ := w.add(w.setup()); !slices.Contains(made, "network tradewind-test") {
		t.Errorf("made %v", made)
	}
}

// Other users' bindings in a policy must stay, with their conditions.
func TestOtherBindingsAreKept(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.Bind("projects/demo", &crm.Binding{Role: "roles/owner", Members: []string{"user:o@example.com"}})
	w.gce.Bind("projects/demo", &crm.Binding{Role: "projects/demo/roles/tradewind_test", Members: []string{"user:c@example.com"},
		Condition: &crm.Expr{Title: "soon", Expression: "false"}})
	const machines = "projects/demo/serviceAccounts/test-machines@demo.iam.gserviceaccount.com"
	w.gce.Bind(machines, &crm.Binding{Role: "roles/viewer", Members: []string{"user:v@example.com"}, Condition: &crm.Expr{Expression: "false"}})
	s := w.setup()
	w.gce.Refuse("cloudresourcemanager.projects.setIamPolicy", gce.Fault{Code: 409, Reason: "aborted", Status: "ABORTED", Message: "another was faster"})
	w.add(s)
	if !w.gce.HasRole("projects/demo", "projects/demo/roles/tradewind_test", "user:a@example.com", false) {
		t.Error("the binding has another binding's condition, or is missing")
	}
	if !w.gce.HasRole(machines, "roles/viewer", "user:v@example.com", true) {
		t.Error("another user's binding on the account is lost")
	}
	if err := s.Remove(t.Context(), func(setup.Change) {}); err != nil {
		t.Fatal(err)
	}
	if !w.gce.HasRole("projects/demo", "roles/owner", "user:o@example.com", false) ||
		!w.gce.HasRole("projects/demo", "projects/demo/roles/tradewind_test", "user:c@example.com", true) ||
		w.gce.HasRole("projects/demo", "projects/demo/roles/tradewind_test", "user:a@example.com", false) {
		t.Error("other users' bindings have changed, or ours remain")
	}
}

func TestRemove(t *testing.T) {
	w := newWorld(t, federated)
	s := w.setup()
	before := w.gce.Created()
	w.add(s)
	c := w.driver(s.Network(), s.MachinesAccount())
	spec := cloud.LaunchSpec{
		Cluster: "a", Nodes: 1, Bootstrap: cloud.Bootstrap{Endpoint: "https://b.example", Tokens: []string{"t"}},
		Offer: apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "e2-standard-2"},
	}
	if _, err := c.Launch(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	full := len(w.gce.Created())
	if err := s.Remove(t.Context(), func(setup.Change) {}); !errors.Is(err, setup.ErrRunning) || len(w.gce.Created()) != full {
		t.Errorf("%v", err)
	}
	if err := c.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range 5 { // the emulator needs some requests to delete a machine
		if _, err := c.Machines(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	var stays map[string]string
	for range 2 { // the second time finds nothing, which is no error
		stays = map[string]string{}
		if err := s.Remove(t.Context(), func(c setup.Change) {
			if c.Stays != "" {
				stays[c.Step] = c.Stays
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for what, is := range w.gce.Created() {
		if name, ok := strings.CutPrefix(what, "service "); ok && is {
			if want := "others may use it; if none does: gcloud services disable " + name + " --project demo"; stays[what] != want {
				t.Errorf("%s stays, as %q, want %q", what, stays[what], want)
			}
			delete(stays, what)
		} else if !before[what] {
			t.Errorf("%s is left", what)
		}
	}
	if len(stays) > 0 {
		t.Errorf("stays, but does not exist: %q", stays)
	}
	// Google reserves deleted names for a while. Add must undelete them.
	if made, _ := w.add(s); !slices.Contains(made, "role tradewind_test") || !slices.Contains(made, "workload identity pool tradewind-test") {
		t.Errorf("made again: %v", made)
	}
	if made, _ := w.add(s); len(made) > 0 {
		t.Errorf("the next time made %v", made)
	}
}

func TestPrintCommands(t *testing.T) {
	w := newWorld(t, federated)
	s := w.setup()
	lines := s.Print()
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"gcloud services enable tpu.googleapis.com --project demo",
		"gcloud compute networks create tradewind-test --subnet-mode auto --project demo",
		"--permissions compute.acceleratorTypes.list,",
		"--attribute-condition \"attribute.aws_role in ['arn:aws:sts::123456789012:assumed-role/tradewind-provision', 'arn:aws:sts::123456789012:assumed-role/tradewind-reconcile']\"",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, line := range slices.Concat(lines, s.PrintRemoval()) {
		if !strings.HasPrefix(line, "gcloud ") || strings.Contains(line, "%!") || strings.Contains(line, "\n") {
			t.Errorf("%q", line)
		}
	}
	if w.gce.Calls("cloudresourcemanager.projects.get") != 0 || len(w.gce.Created()) != 0 {
		t.Error("printing made calls")
	}
}

func TestAddErrorNamesStep(t *testing.T) {
	w := newWorld(t, nil)
	w.gce.Refuse("iam.projects.roles.create", gce.Fault{Code: 403, Reason: "forbidden", Status: "PERMISSION_DENIED", Message: "You don't have permission to create a role"})
	s := w.setup()
	err := s.Add(t.Context(), func(setup.Change) {})
	if cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), "role tradewind_test") || !strings.Contains(err.Error(), "permission to create a role") {
		t.Errorf("%v", err)
	}
	if made, _ := w.add(s); slices.Contains(made, "network tradewind-test") || !slices.Contains(made, "role tradewind_test") {
		t.Errorf("then made %v", made) // Add continues from where it stopped
	}
}

func TestNewRejectsBadConfig(t *testing.T) {
	w := newWorld(t, nil)
	for name, spoil := range map[string]func(*setup.Config){
		"a long name":      func(c *setup.Config) { c.Deployment = strings.Repeat("x", 21) },
		"capital letters":  func(c *setup.Config) { c.Deployment = "Test" },
		"no project":       func(c *setup.Config) { c.Project = "" },
		"no member":        func(c *setup.Config) { c.Member = "" },
		"no member's form": func(c *setup.Config) { c.Member = "a@example.com" },
		"a quote":          func(c *setup.Config) { c.Member = "user:a' --quiet 'b" },
		"both":             func(c *setup.Config) { c.AWSAccount = "123456789012" },
		"no account":       func(c *setup.Config) { c.Member, c.AWSAccount, c.AWSRoles = "", "12", []string{"a"} },
		"no roles":         func(c *setup.Config) { c.Member, c.AWSAccount = "", "123456789012" },
		"a role's quote": func(c *setup.Config) {
			c.Member, c.AWSAccount, c.AWSRoles = "", "123456789012", []string{"a'] || true"}
		},
	} {
		cfg := w.cfg
		spoil(&cfg)
		if _, err := setup.New(cfg); !errors.Is(err, setup.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// New resources are not known everywhere at once: services answer SERVICE_DISABLED, or that a service account "may
// not exist" or "does not exist". `cloud add` must wait instead of failing.
func TestAddWaitsForPropagation(t *testing.T) {
	defer setup.Hasten()()
	w := newWorld(t, func(c *setup.Config) {
		c.Member, c.AWSAccount, c.AWSRoles = "", "123456789012", []string{"tradewind-cloud-gcp"}
	})
	w.gce.Propagate(2)
	s, err := setup.New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	if err := s.Add(t.Context(), func(c setup.Change) {
		if c.Made {
			made++
		}
	}); err != nil {
		t.Fatalf("after %d steps: %v", made, err)
	}
	if !w.gce.HasRole("projects/demo", "projects/demo/roles/tradewind_test", "serviceAccount:test-broker@demo.iam.gserviceaccount.com", false) {
		t.Error("the buyer has no rights")
	}
}
