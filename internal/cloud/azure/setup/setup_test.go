package setup_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/azure/setup"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

type world struct {
	*testing.T
	arm *arm.Server
	cfg setup.Config
	url string
}

func newWorld(t *testing.T, change func(*setup.Config)) *world {
	w := &world{T: t, arm: arm.New(arm.Config{})}
	server := httptest.NewServer(w.arm)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.cfg = setup.Config{Deployment: "tw", Subscription: arm.DefaultSubscription, ResourceGroup: "tradewind", Location: "eastus",
		Federation: &setup.Federation{Issuer: "https://x.tokens.sts.global.api.aws", Subject: "arn:aws:iam::1:role/tw's"},
		Credential: arm.Credential{}, Options: arm.Options(server.URL), Pause: time.Millisecond}
	if change != nil {
		change(&w.cfg)
	}
	return w
}

func (w *world) setup() *setup.Setup {
	w.Helper()
	s, err := setup.New(w.cfg)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// make runs Make, and returns the steps that created something and those whose result existed.
func (w *world) make() (made, were []string) {
	w.Helper()
	err := w.setup().Make(w.Context(), func(s setup.Step, was bool) {
		if was {
			were = append(were, s.Name)
		} else {
			made = append(made, s.Name)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	return made, were
}

// put creates a resource like another user.
func (w *world) put(path, body string) {
	w.Helper()
	at := w.url + "/subscriptions/" + w.cfg.Subscription + path + "?api-version=2022-04-01"
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPut, at, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+arm.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode > 299 {
		w.Fatal(res, err)
	}
	res.Body.Close()
}

func none(context.Context) (int, error) { return 0, nil }

func TestMakeIsIdempotent(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.RemoveGroup()
	w.arm.Unregister("Microsoft.Compute")
	made, were := w.make()
	if len(made) != 11 || len(were) != 1 || !w.arm.HasGroup() || !w.arm.Registered("Microsoft.Compute") {
		t.Errorf("made %v; existed %v", made, were)
	}
	puts := w.arm.Calls("PUT resource") + w.arm.Calls("PUT group") + w.arm.Calls("POST register")
	again, _ := w.make()
	if now := w.arm.Calls("PUT resource") + w.arm.Calls("PUT group") + w.arm.Calls("POST register"); len(again) != 0 || now != puts {
		t.Errorf("made again: %v", again)
	}
	who, err := w.setup().Identity(t.Context())
	if err != nil || who.Client == "" || who.Object == "" || who.Tenant == "" {
		t.Errorf("%+v %v", who, err)
	}
}

// The registration of a provider takes minutes, and new roles are not known everywhere at once. Make must wait for
// both. Source: learn.microsoft.com/azure/azure-resource-manager/management/resource-providers-and-types
// ("Registering" until all regions have finished) and hashicorp/terraform-provider-azurerm issues 5038 and 10602
// (RoleDefinitionDoesNotExist).
func TestMakeWaitsForRegistrationsAndRoles(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.Unregister("Microsoft.Compute")
	w.arm.Registering("Microsoft.ManagedIdentity", 3) // begun by an earlier try
	w.make()
	for _, namespace := range []string{"Microsoft.Compute", "Microsoft.ManagedIdentity"} {
		if !w.arm.Registered(namespace) {
			t.Errorf("the subscription is not registered for %s yet", namespace)
		}
	}
}

// A registration does not end. After five minutes, the error must name the provider and a next step.
func TestMakeReportsEndlessRegistration(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.Registering("Microsoft.Network", 1_000_000)
	s, now := w.setup(), time.Now()
	s.Now(func() time.Time {
		now = now.Add(time.Minute)
		return now
	})
	err := s.Make(t.Context(), func(setup.Step, bool) {})
	if err == nil || !strings.Contains(err.Error(), "Microsoft.Network after 5m0s: run the command again later") {
		t.Error(err)
	}
}

// The created roles must include the rights that the check needs, and those for custom images.
func TestRolesAllowReads(t *testing.T) {
	var all string
	for _, s := range newWorld(t, nil).setup().Steps() {
		all += strings.Join(s.Commands, "\n")
	}
	for _, want := range []string{"Microsoft.Authorization/permissions/read", "Microsoft.Compute/images/read", "Microsoft.Compute/galleries/images/versions/read"} {
		if !strings.Contains(all, `"`+want+`"`) {
			t.Errorf("no role has %s", want)
		}
	}
}

// The buyer may be a person, a group or an application. The settings need not say which.
func TestRightsForEveryKindOfPrincipal(t *testing.T) {
	for _, kind := range []string{"User", "Group", "ServicePrincipal"} {
		w := newWorld(t, func(c *setup.Config) { c.Federation, c.Principal = nil, "11111111-1111-1111-1111-111111111111" })
		w.arm.AddPrincipal(w.cfg.Principal, kind)
		w.make()
		for _, s := range w.setup().Steps() {
			if text := strings.Join(s.Commands, "; "); strings.Contains(text, "principal-type") {
				t.Errorf("%s: %s", s.Name, text)
			}
		}
		w.cfg.PrincipalType = "Device"
		w.cfg.Deployment = "tw2"
		if err := w.setup().Make(t.Context(), func(setup.Step, bool) {}); err == nil || !strings.Contains(err.Error(), "UnmatchedPrincipalType") {
			t.Errorf("a %s with the wrong type: %v", kind, err)
		}
	}
}

// After the setup, the driver must have all that it needs.
func TestSetupSatisfiesDriver(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.RemoveGroup()
	w.make()
	c, err := azure.New(azure.Config{Deployment: "tw", Subscription: w.cfg.Subscription, ResourceGroup: "tradewind", Regions: []string{"eastus"},
		Agents: driver.Agents{"": strings.Repeat("a", 64)}, Credential: arm.Credential{}, Options: arm.Options(w.url)})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Check(t.Context()); err != nil || len(r.Missing) != 0 {
		t.Errorf("%+v, %v", r.Missing, err)
	}
	w.arm.Settle()
}

func TestRemove(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.RemoveGroup()
	w.make()
	var removed, stays []string
	running := func(context.Context) (int, error) { return 2, nil }
	told := func(s setup.Step) {
		if s.Stays != "" {
			stays = append(stays, s.Name+": "+s.Stays)
		} else {
			removed = append(removed, s.Name)
		}
	}
	if err := w.setup().Remove(t.Context(), running, told); !errors.Is(err, setup.ErrRunning) || len(removed) != 0 {
		t.Fatalf("removed while machines run: %v, %v", removed, err)
	}
	if err := w.setup().Remove(t.Context(), func(context.Context) (int, error) { return 0, errors.New("cannot see") }, told); err == nil || len(removed) != 0 {
		t.Fatalf("removed although the number of machines is unknown: %v, %v", removed, err)
	}
	if err := w.setup().Remove(t.Context(), none, told); err != nil {
		t.Fatal(err)
	}
	if len(removed) != 9 || w.arm.HasGroup() || len(w.arm.Resources()) != 0 || !w.arm.Registered("Microsoft.Compute") {
		t.Errorf("removed %v; left: %v", removed, w.arm.Resources())
	}
	var registrations []string
	for _, namespace := range []string{"Microsoft.ManagedIdentity", "Microsoft.Network", "Microsoft.Compute"} {
		registrations = append(registrations, "registration for "+namespace+": others may use it; if none does: az provider unregister "+
			"--namespace "+namespace+" --subscription "+w.cfg.Subscription)
	}
	if !slices.Equal(stays, registrations) {
		t.Errorf("stays: %q", stays)
	}
	removed = nil
	if err := w.setup().Remove(t.Context(), none, told); err != nil || len(removed) != 0 {
		t.Errorf("the second time: %v, %v", removed, err)
	}
}

// A user removes the cloud and adds it again at once. Azure needs minutes to delete the group, and lists it until
// then: Make must wait.
func TestMakeWaitsForDeletionOfGroup(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.RemoveGroup()
	w.make()
	if err := w.setup().Remove(t.Context(), none, func(setup.Step) {}); err != nil {
		t.Fatal(err)
	}
	if made, _ := w.make(); !slices.Contains(made, "resource group tradewind") || !w.arm.HasGroup() {
		t.Errorf("made %q; the group exists: %v", made, w.arm.HasGroup())
	}
}

// A user has created a machine in the group that this package created. The group must not be removed, and the report
// must say so.
func TestRemoveReportsGroupWithOtherResources(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.RemoveGroup()
	w.make()
	other, err := azure.New(azure.Config{Deployment: "other", Subscription: w.cfg.Subscription, ResourceGroup: "tradewind", Regions: []string{"eastus"},
		Agents: driver.Agents{"": strings.Repeat("a", 64)}, Credential: arm.Credential{}, Options: arm.Options(w.url)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Launch(t.Context(), cloud.LaunchSpec{Cluster: "a", Nodes: 1, Offer: apitypes.Offer{Cloud: "azure", Region: "eastus",
		InstanceType: "Standard_D2s_v5"}, Bootstrap: cloud.Bootstrap{Endpoint: "https://x", Tokens: []string{"t"}}}); err != nil {
		t.Fatal(err)
	}
	group := ""
	if err := w.setup().Remove(t.Context(), none, func(s setup.Step) {
		if strings.HasPrefix(s.Name, "resource group") {
			group = s.Stays
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !w.arm.HasGroup() || !strings.HasPrefix(group, "it has other resources: az resource list --resource-group tradewind ") {
		t.Errorf("the group exists: %v; it stays, as %q", w.arm.HasGroup(), group)
	}
}

// A group existed before, or contains something else. It must stay, and only the deployment's networks are removed.
func TestRemoveKeepsForeignGroup(t *testing.T) {
	w := newWorld(t, nil)
	w.make()
	c, err := azure.New(azure.Config{Deployment: "tw", Subscription: w.cfg.Subscription, ResourceGroup: "tradewind", Regions: []string{"eastus"},
		Agents: driver.Agents{"": strings.Repeat("a", 64)}, Credential: arm.Credential{}, Options: arm.Options(w.url)})
	if err != nil {
		t.Fatal(err)
	}
	offer := apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_D2s_v5"}
	if _, err := c.Launch(t.Context(), cloud.LaunchSpec{Cluster: "a", Nodes: 1, Offer: offer,
		Bootstrap: cloud.Bootstrap{Endpoint: "https://x", Tokens: []string{"t"}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.arm.Settle()
	if n := len(w.arm.Resources()); n != 10 {
		t.Fatalf("%v", w.arm.Resources())
	}
	if err := w.setup().Remove(t.Context(), none, func(setup.Step) {}); err != nil {
		t.Fatal(err)
	}
	if !w.arm.HasGroup() || len(w.arm.Resources()) != 0 {
		t.Errorf("left: %v", w.arm.Resources())
	}
}

func TestOutdatedRoleIsUpdated(t *testing.T) {
	w := newWorld(t, nil)
	w.make()
	for name := range w.arm.Resources() {
		if id, is := strings.CutPrefix(name, "Microsoft.Authorization/roleDefinitions/"); is {
			w.put("/resourceGroups/tradewind/providers/Microsoft.Authorization/roleDefinitions/"+id, `{"properties":{"roleName":"x",
				"assignableScopes":["/"],"permissions":[{"actions":["Microsoft.Compute/virtualMachines/read"]}]}}`)
		}
	}
	if made, _ := w.make(); len(made) != 1 || !strings.Contains(made[0], "role Tradewind tw machines") {
		t.Errorf("%v", made)
	}
}

func TestErrorNamesStep(t *testing.T) {
	w := newWorld(t, nil)
	w.arm.Deny("Microsoft.Authorization/roleDefinitions/write")
	err := w.setup().Make(t.Context(), func(setup.Step, bool) {})
	if cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), "role Tradewind tw machines") || !strings.Contains(err.Error(), "roleDefinitions/write") {
		t.Error(err)
	}
}

// A user may not grant rights in the directory. The setup must make everything else, and report the skipped steps
// with their commands.
func TestOptionalStepsMayBeRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, kind := range []string{"GET", "PUT", "DELETE"} {
		w.arm.Make(arm.Trouble{Kind: kind + " directory's right", Times: -1, Fault: &arm.Fault{Status: 403, Code: "AuthorizationFailed", Message: "no"}})
	}
	var refused []string
	err := w.setup().Make(t.Context(), func(s setup.Step, was bool) {
		if s.Refused != nil {
			refused = append(refused, s.Name, s.Refused.Error(), strings.Join(s.Commands, "; "))
		}
	})
	all := strings.Join(refused, "\n")
	for _, want := range []string{"role Savings plan Reader", "AuthorizationFailed", "az role assignment create", "--scope /providers/Microsoft.BillingBenefits",
		"role Reservations Reader", "--scope /providers/Microsoft.Capacity"} {
		if err != nil || !strings.Contains(all, want) {
			t.Errorf("%v: lacks %q: %s", err, want, all)
		}
	}
	if err := w.setup().Remove(t.Context(), none, func(setup.Step) {}); err != nil || len(w.arm.Resources()) != 0 {
		t.Errorf("%v, left %v", err, w.arm.Resources())
	}
}

// The printed commands must be valid shell and contain no secrets. If the buyer already exists, they name it.
func TestCommandsAreValidShell(t *testing.T) {
	for name, change := range map[string]func(*setup.Config){
		"federation": nil,
		"a user":     func(c *setup.Config) { c.Federation, c.Principal = nil, "11111111-1111-1111-1111-111111111111" },
	} {
		w := newWorld(t, change)
		var all string
		for _, s := range w.setup().Steps() {
			if len(s.Commands) == 0 {
				t.Errorf("%s has no command", s.Name)
			}
			for _, c := range s.Commands {
				all += c + "\n"
				out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", c).CombinedOutput()
				if err != nil || !strings.HasPrefix(c, "az ") {
					t.Errorf("%s: %s: %s", name, c, out)
				}
			}
		}
		if strings.Contains(all, arm.Token) || strings.Contains(strings.ToLower(all), "secret") {
			t.Errorf("%s", all)
		}
		if name == "federation" != strings.Contains(all, `arn:aws:iam::1:role/tw'\''s`) || name == "a user" != strings.Contains(all, "11111111") {
			t.Errorf("%s", all)
		}
	}
}

func TestNewRejectsIncompleteConfig(t *testing.T) {
	good := newWorld(t, nil).cfg
	for name, spoil := range map[string]func(*setup.Config){
		"deployment": func(c *setup.Config) { c.Deployment = "" }, "subscription": func(c *setup.Config) { c.Subscription = "" },
		"location": func(c *setup.Config) { c.Location = "" }, "principal or federation": func(c *setup.Config) { c.Federation = nil },
		"issuer": func(c *setup.Config) { c.Federation = &setup.Federation{} }, "credential": func(c *setup.Config) { c.Credential = nil },
	} {
		c := good
		spoil(&c)
		if _, err := setup.New(c); !errors.Is(err, setup.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
