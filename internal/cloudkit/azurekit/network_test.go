package azurekit

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

const network = "/subscriptions/" + arm.DefaultSubscription +
	"/resourceGroups/tradewind/providers/Microsoft.Network/virtualNetworks/ours"

// The settings name a subnet, as `deploy aws --cloud azure:…` passes it. Machines must use it and get no public
// address.
func TestSubnetsOfSettingsReachTheDriver(t *testing.T) {
	server := arm.New(arm.Config{})
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	put(t, web.URL+network, `{"location":"eastus","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},
		"subnets":[{"name":"behind-nat","properties":{"addressPrefix":"10.0.0.0/24"}}]}}`)
	given := cloudkit.Settings{
		Subscription: arm.DefaultSubscription, ResourceGroup: "tradewind", Regions: []string{"eastus"}, Endpoint: web.URL,
		NoPublicAddress: true, Subnets: map[string]string{"eastus": network + "/subnets/behind-nat"},
	}
	text, err := given.Text()
	if err != nil {
		t.Fatal(err)
	}
	pairs := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		pairs[name] = value
	}
	s, err := cloudkit.FromPairs(pairs)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Kit().Open(t.Context(), cloudkit.Request{Settings: s, Deployment: "tw",
		Agents: driver.Agents{"": strings.Repeat("0123456789abcdef", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = opened.Cloud.Launch(t.Context(), cloud.LaunchSpec{Cluster: "a", Nodes: 1,
		Offer:     apitypes.Offer{Cloud: Name, Region: "eastus", InstanceType: "Standard_D2s_v5"},
		Bootstrap: cloud.Bootstrap{Endpoint: "https://api.example", Tokens: []string{"token"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name := range server.Resources() {
		if strings.Contains(name, "publicIPAddresses") || strings.Contains(name, "virtualNetworks/") && !strings.HasSuffix(name, "/ours") {
			t.Errorf("%s was created", name)
		}
	}
}

func TestSubnetsMustBelongToRegions(t *testing.T) {
	for _, bad := range []map[string]string{{"westus": network + "/subnets/a"}, {"eastus": network}, {"eastus": ""}} {
		err := ready(cloudkit.Settings{Subscription: "s", Regions: []string{"eastus"}, Subnets: bad}, nil)
		if !errors.Is(err, cloudkit.ErrSettings) || !strings.Contains(fmt.Sprint(err), "az network vnet subnet show") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func put(t *testing.T, at, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, at+"?api-version=2024-05-01", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+arm.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode > 299 {
		t.Fatal(res, err)
	}
	res.Body.Close()
}
