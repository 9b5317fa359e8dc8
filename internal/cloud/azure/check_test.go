package azure_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
)

func (w *world) check() driver.Report {
	w.Helper()
	r, err := w.driver(w.cfg).Check(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestCheckOfReadySubscription(t *testing.T) {
	w := newWorld(t, arm.Config{Limits: map[string]int{"cores": 100, "lowPriorityCores": 10}}, nil)
	w.launch(spec("a", onDemand, 1))
	r := w.check()
	if r.Identity != "ada@example.com" || r.Account != arm.DefaultSubscription || !slices.Equal(r.Regions, []string{"eastus", "westeurope"}) || len(r.Missing) != 0 {
		t.Errorf("%+v", r)
	}
	if want := (driver.Quota{Name: "cores", Region: "eastus", Limit: 100, Used: 2}); !slices.Contains(r.Quotas, want) {
		t.Errorf("%+v", r.Quotas)
	}
}

func TestCheckReportsWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil      func(*world)
		what, mend string
		fatal      bool
	}{
		"no such subscription": {func(w *world) { w.cfg.Subscription = "no-such" }, "could not be found", "az login --tenant", true},
		"no token": {func(w *world) {
			w.cfg.Credential = arm.Credential{Err: errors.New("AADSTS700082: the refresh token has expired\nTrace ID: 1")}
		},
			"AADSTS700082: the refresh token has expired", "az login", true},
		"an invalid token":            {func(w *world) { w.cfg.Credential = arm.Credential{Token: "a.b.c"} }, "InvalidAuthenticationToken", "az login", true},
		"no rights at all":            {func(w *world) { w.arm.Deny("*") }, "does not have authorization", "az role assignment create", true},
		"no right to write":           {func(w *world) { w.arm.Deny("Microsoft.Compute/virtualMachines/write") }, "Microsoft.Compute/virtualMachines/write", "az role assignment create --assignee ada@example.com", true},
		"no right to read the rights": {func(w *world) { w.arm.Deny("Microsoft.Authorization/permissions/read") }, "the rights in the resource group cannot be read", "az role assignment create", false},
		"not registered":              {func(w *world) { w.arm.Unregister("Microsoft.Network") }, "not registered for Microsoft.Network", "az provider register --namespace Microsoft.Network", true},
		"being registered":            {func(w *world) { w.arm.Registering("Microsoft.Compute", 9) }, "still being registered for Microsoft.Compute", "az provider show --namespace Microsoft.Compute", false},
		"no way out": {func(w *world) { w.cfg.NoPublicAddress = true }, "machines in westeurope have no public address and no subnet with another way",
			"--no-public-address --subnets westeurope=ID", false},
		// learn.microsoft.com/azure/virtual-machines/spot-vms, "Limitations": Enterprise Agreement, pay-as-you-go, sponsored.
		"a free trial": {func(w *world) { w.arm.Trial() }, "has a spending limit (FreeTrial_2014-09-01), so Azure sells it no spot machines",
			"upgrade-azure-subscription", false},
		"no such subnet": {func(w *world) {
			w.cfg.Subnets = map[string]string{"eastus": "/subscriptions/" + arm.DefaultSubscription +
				"/resourceGroups/tradewind/providers/Microsoft.Network/virtualNetworks/none/subnets/a"}
		}, "the subnet of eastus cannot be read", "az network vnet subnet list", false},
		"no group":            {func(w *world) { w.arm.RemoveGroup() }, "ResourceGroupNotFound", "az group create --name tradewind --location eastus", true},
		"no such region":      {func(w *world) { w.cfg.Regions = []string{"eastus", "marsnorth"} }, "no region marsnorth", "az account list-locations", false},
		"a quota of 0":        {func(w *world) { w.arm.Limit("lowPriorityCores", 0) }, "lowPriorityCores of eastus is 0", "az quota update", false},
		"a clock that is off": {func(w *world) { w.arm.Skew(10 * time.Minute) }, "The access token expiry UTC time", "timedatectl set-ntp true", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, arm.Config{Limits: map[string]int{"cores": 10}}, nil)
			c.spoil(w)
			r := w.check()
			found := slices.ContainsFunc(r.Missing, func(l driver.Lack) bool {
				return strings.Contains(l.What, c.what) && strings.Contains(l.Mend, c.mend) && l.Fatal == c.fatal && !strings.Contains(l.What, "\n")
			})
			if !found {
				t.Errorf("%+v", r.Missing)
			}
		})
	}
}

// The computer's clock is ten minutes off. The check must report that, even if Azure still accepts the token.
func TestCheckReportsClockSkew(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	c := w.driver(w.cfg)
	c.Later(10 * time.Minute)
	r, err := c.Check(t.Context())
	if err != nil || len(r.Missing) != 1 || r.Missing[0].Fatal || !strings.Contains(r.Missing[0].What, "clock is off by ") {
		t.Errorf("%+v, %v", r.Missing, err)
	}
}

func FuzzWhose(f *testing.F) {
	f.Add(arm.Token)
	f.Add("a." + base64.RawURLEncoding.EncodeToString([]byte(`{"appid":"x"}`)) + ".c")
	f.Fuzz(func(_ *testing.T, token string) { azure.Whose(token) })
}
