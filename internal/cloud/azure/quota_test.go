package azure_test

import (
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A refusal for lack of quota must name the quota. Sources of the messages: github.com/openshift/release pull request
// 33708, github.com/scylladb/scylla-cluster-tests issue 4994, github.com/hashicorp/terraform issue 10056.
func TestRefusalNamesItsQuota(t *testing.T) {
	const exceeds = "Operation could not be completed as it results in exceeding approved "
	d4 := apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_D4s_v3"}
	d4spot := d4
	d4spot.Spot = true
	for name, c := range map[string]struct {
		offer         apitypes.Offer
		code, message string
		class         string
		scope         cloud.Scope
	}{
		"all vCPUs":           {d4, "QuotaExceeded", exceeds + "Total Regional Cores quota.", quotas.AzureCores, ""},
		"all vCPUs, older":    {d4, "OperationNotAllowed", "Operation results in exceeding quota limits of Core. Maximum allowed: 20", quotas.AzureCores, ""},
		"a family":            {d4, "OperationNotAllowed", exceeds + "standardDSv3Family Cores quota.", "standardDSv3Family", ""},
		"spot":                {d4spot, "OperationNotAllowed", exceeds + "LowPriorityCores quota.", quotas.AzureSpot, ""},
		"addresses":           {d4, "PublicIPCountLimitReached", "Cannot create more than 10 public IP addresses.", quotas.Region, ""},
		"interfaces":          {d4, "NetworkInterfaceCountLimitReached", "Cannot create more.", quotas.Region, ""},
		"the location":        {d4, "LocationNotAvailableForResourceType", "The location is not available.", "", cloud.ScopeRegion},
		"a policy":            {d4, "RequestDisallowedByPolicy", "Disallowed by policy 'sizes'.", "", ""},
		"a policy about spot": {d4spot, "RequestDisallowedByPolicy", "Disallowed by policy 'no spot'.", "", ""},
	} {
		err := azure.OfQuota(cloud.LaunchSpec{Offer: c.offer}, cloud.Errorf("azure", cloud.Quota, c.code, "%s", c.message))
		var e *cloud.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Scope != c.scope || e.Kind != cloud.Quota || e.Code != c.code {
			t.Errorf("%s: class %q, scope %q", name, e.Class, e.Scope)
		}
	}
	w := newWorld(t, arm.Config{Limits: map[string]int{"cores": 4}}, nil)
	var e *cloud.Error
	if _, err := w.azure.Launch(t.Context(), spec("q", onDemand, 3)); !errors.As(err, &e) || e.Class != quotas.AzureCores {
		t.Errorf("a launch is refused with %+v", e)
	}
}
