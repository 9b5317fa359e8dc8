package arm

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"
)

func (c *call) subscription(_ context.Context, id string, _ *armsubscriptions.ClientGetOptions) (
	resp fake.Responder[armsubscriptions.ClientGetResponse], errResp fake.ErrorResponder) {
	resp.SetResponse(http.StatusOK, armsubscriptions.ClientGetResponse{Subscription: armsubscriptions.Subscription{
		ID: to.Ptr(
			"/subscriptions/" + id,
		), SubscriptionID: &id, DisplayName: to.Ptr("Pay-As-You-Go"), TenantID: to.Ptr("t1"),
		State: to.Ptr(armsubscriptions.SubscriptionStateEnabled), SubscriptionPolicies: c.policies(),
	}}, nil)
	return resp, errResp
}

// policies returns the policies of a pay-as-you-go subscription, or those of a free trial, which has a spending limit.
func (c *call) policies() *armsubscriptions.SubscriptionPolicies {
	quota, limit := "PayAsYouGo_2014-09-01", armsubscriptions.SpendingLimitOff
	if c.trial {
		quota, limit = "FreeTrial_2014-09-01", armsubscriptions.SpendingLimitOn
	}
	return &armsubscriptions.SubscriptionPolicies{QuotaID: &quota, SpendingLimit: &limit}
}

func (c *call) locations(id string, _ *armsubscriptions.ClientListLocationsOptions) (
	resp fake.PagerResponder[armsubscriptions.ClientListLocationsResponse]) {
	var all []*armsubscriptions.Location
	for _, l := range c.cfg.Locations {
		one := &armsubscriptions.Location{
			ID: to.Ptr(
				"/subscriptions/" + id + "/locations/" + l.Name,
			), Name: to.Ptr(l.Name), Type: to.Ptr(armsubscriptions.LocationTypeRegion),
			Metadata: &armsubscriptions.LocationMetadata{RegionType: to.Ptr(armsubscriptions.RegionTypePhysical)},
		}
		for logical, physical := range l.Zones {
			one.AvailabilityZoneMappings = append(
				one.AvailabilityZoneMappings,
				&armsubscriptions.AvailabilityZoneMappings{
					LogicalZone: to.Ptr(logical), PhysicalZone: to.Ptr(physical)},
			)
		}
		all = append(all, one)
	}
	resp.AddPage(http.StatusOK, armsubscriptions.ClientListLocationsResponse{
		LocationListResult: armsubscriptions.LocationListResult{Value: all}}, nil)
	return resp
}

// registerReads is the number of reads that find a registration in progress before it has ended. In Azure a
// registration takes minutes, in which requests for the provider's resources are refused ("Azure resource providers
// and types").
const registerReads = 2

func (c *call) provider(_ context.Context, namespace string, _ *armresources.ProvidersClientGetOptions) (
	resp fake.Responder[armresources.ProvidersClientGetResponse], errResp fake.ErrorResponder) {
	key, state := strings.ToLower(namespace), "NotRegistered"
	if left, ok := c.registers[key]; ok {
		state = "Registering"
		if c.registers[key] = left - 1; left <= 0 {
			delete(c.registers, key)
			c.providers[key] = true
		}
	}
	if c.providers[key] {
		state = "Registered"
	}
	resp.SetResponse(http.StatusOK, armresources.ProvidersClientGetResponse{Provider: armresources.Provider{
		Namespace: &namespace, RegistrationState: &state}}, nil)
	return resp, errResp
}

func (c *call) register(_ context.Context, namespace string, _ *armresources.ProvidersClientRegisterOptions) (
	resp fake.Responder[armresources.ProvidersClientRegisterResponse], errResp fake.ErrorResponder) {
	if key := strings.ToLower(namespace); !c.providers[key] {
		if _, ok := c.registers[key]; !ok {
			c.providers[key], c.registers[key] = false, registerReads
		}
	}
	resp.SetResponse(http.StatusOK, armresources.ProvidersClientRegisterResponse{Provider: armresources.Provider{
		Namespace: &namespace, RegistrationState: to.Ptr("Registering")}}, nil)
	return resp, errResp
}

func (c *call) describeGroup(name string) armresources.ResourceGroup {
	return armresources.ResourceGroup{
		ID: to.Ptr(
			"/subscriptions/" + c.cfg.Subscription + "/resourceGroups/" + name,
		), Name: &name, Location: to.Ptr(c.cfg.Locations[0].Name), Tags: c.tags,
		Properties: &armresources.ResourceGroupProperties{ProvisioningState: to.Ptr(succeeded)},
	}
}

func (c *call) group(_ context.Context, name string, _ *armresources.ResourceGroupsClientGetOptions) (
	resp fake.Responder[armresources.ResourceGroupsClientGetResponse], errResp fake.ErrorResponder) {
	if c.takeEnding(name) {
		g := c.describeGroup(name)
		g.Properties.ProvisioningState = to.Ptr("Deleting")
		resp.SetResponse(http.StatusOK, armresources.ResourceGroupsClientGetResponse{ResourceGroup: g}, nil)
		return resp, errResp
	}
	if !c.groups[strings.ToLower(name)] {
		errResp.SetError(
			fault(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", name),
		)
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK,
		armresources.ResourceGroupsClientGetResponse{ResourceGroup: c.describeGroup(name)}, nil)
	return resp, errResp
}

func (c *call) makeGroup(_ context.Context, name string, group armresources.ResourceGroup,
	_ *armresources.ResourceGroupsClientCreateOrUpdateOptions) (
	resp fake.Responder[armresources.ResourceGroupsClientCreateOrUpdateResponse], errResp fake.ErrorResponder) {
	if c.takeEnding(name) {
		errResp.SetError(fault(http.StatusConflict, "ResourceGroupBeingDeleted",
			"The resource group '%s' is in deprovisioning state and cannot perform this operation.", name))
		return resp, errResp
	}
	c.groups[strings.ToLower(name)] = true
	c.tags = group.Tags
	resp.SetResponse(http.StatusCreated,
		armresources.ResourceGroupsClientCreateOrUpdateResponse{ResourceGroup: c.describeGroup(name)}, nil)
	return resp, errResp
}

// groupEnds is the number of requests that find a group in deletion before it is removed. In Azure this takes
// minutes.
const groupEnds = 2

// takeEnding reports whether a group is being deleted.
func (c *call) takeEnding(name string) bool {
	if c.ending[strings.ToLower(name)] == 0 {
		return false
	}
	c.ending[strings.ToLower(name)]--
	return true
}

func (c *call) removeGroup(_ context.Context, name string, _ *armresources.ResourceGroupsClientBeginDeleteOptions) (
	resp fake.PollerResponder[armresources.ResourceGroupsClientDeleteResponse], errResp fake.ErrorResponder) {
	delete(c.groups, strings.ToLower(name))
	c.ending[strings.ToLower(name)] = groupEnds
	for id := range c.resources {
		if strings.Contains(id, "/resourcegroups/"+strings.ToLower(name)+"/") {
			delete(c.resources, id)
		}
	}
	for _, v := range c.machines {
		c.end(v)
	}
	c.machines = map[string]*virtual{}
	c.op = c.begin(c.cfg.Locations[0].Name, func() *Fault { return nil })
	resp.SetTerminalResponse(http.StatusAccepted, armresources.ResourceGroupsClientDeleteResponse{}, nil)
	return resp, errResp
}

// permissions answers with the caller's permissions in the group.
func (s *Server) permissions(w http.ResponseWriter) error {
	not := []string{}
	actions := []string{"*"}
	for a := range s.denied {
		if a == "*" {
			actions = []string{}
			continue
		}
		not = append(not, a)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(w).Encode(map[string]any{"value": []any{map[string]any{
		"actions": actions, "notActions": not, "dataActions": []string{}, "notDataActions": []string{}}}})
}

func (c *call) listSKUs(
	o *armcompute.ResourceSKUsClientListOptions,
) (resp fake.PagerResponder[armcompute.ResourceSKUsClientListResponse]) {
	var all []*armcompute.ResourceSKU
	for _, l := range c.cfg.Locations {
		if o != nil && o.Filter != nil && *o.Filter != "location eq '"+l.Name+"'" {
			continue
		}
		for _, z := range c.cfg.Sizes {
			all = append(all, z.sku(l))
		}
		all = append(
			all,
			&armcompute.ResourceSKU{
				ResourceType: to.Ptr("disks"),
				Name:         to.Ptr("Premium_LRS"),
				Locations:    []*string{to.Ptr(l.Name)},
			},
		)
	}
	resp.AddPage(http.StatusOK,
		armcompute.ResourceSKUsClientListResponse{ResourceSKUsResult: armcompute.ResourceSKUsResult{Value: all}}, nil)
	return resp
}

func (z Size) sku(l Location) *armcompute.ResourceSKU {
	capability := func(name, value string) *armcompute.ResourceSKUCapabilities {
		return &armcompute.ResourceSKUCapabilities{Name: &name, Value: &value}
	}
	arch, generations := "x64", "V1,V2"
	if z.Arm {
		arch, generations = "Arm64", "V2"
	}
	if z.OnlyFirstGen {
		generations = "V1"
	}
	s := &armcompute.ResourceSKU{
		ResourceType: to.Ptr(
			"virtualMachines",
		), Name: to.Ptr(z.Name), Family: to.Ptr(z.Family), Locations: []*string{to.Ptr(l.Name)},
		LocationInfo: []*armcompute.ResourceSKULocationInfo{{Location: to.Ptr(l.Name)}},
		Capabilities: []*armcompute.ResourceSKUCapabilities{
			capability("vCPUs",
				strconv.Itoa(z.VCPU)), capability("MemoryGB", strconv.FormatFloat(z.MemoryGiB, 'f', -1, 64)),
			capability("HyperVGenerations", generations), capability("CpuArchitectureType", arch),
			capability("LowPriorityCapable", map[bool]string{true: "False", false: "True"}[z.NoSpotCapable]),
		},
	}
	s.Capabilities = append(s.Capabilities, capability("vCPUsAvailable", strconv.Itoa(cmp.Or(z.Available, z.VCPU))))
	if z.Confidential != "" {
		s.Capabilities = append(s.Capabilities, capability("ConfidentialComputingType", z.Confidential))
	}
	if z.GPUs > 0 {
		s.Capabilities = append(s.Capabilities, capability("GPUs", strconv.Itoa(z.GPUs)))
	}
	for zone := range l.Zones {
		if slices.Contains(z.Zones, zone) {
			s.LocationInfo[0].Zones = append(s.LocationInfo[0].Zones, to.Ptr(zone))
		}
	}
	if z.Restricted {
		s.Restrictions = []*armcompute.ResourceSKURestrictions{{
			Type: to.Ptr(armcompute.ResourceSKURestrictionsTypeLocation), Values: []*string{to.Ptr(l.Name)},
			ReasonCode: to.Ptr(armcompute.ResourceSKURestrictionsReasonCodeNotAvailableForSubscription),
		}}
	}
	return s
}

func (c *call) listUsage(location string,
	_ *armcompute.UsageClientListOptions) (resp fake.PagerResponder[armcompute.UsageClientListResponse]) {
	used := c.used(location)
	var all []*armcompute.Usage
	for name, limit := range c.cfg.Limits {
		all = append(all, &armcompute.Usage{
			Name: &armcompute.UsageName{Value: to.Ptr(name), LocalizedValue: to.Ptr(name)}, Unit: to.Ptr("Count"),
			CurrentValue: to.Ptr(int32(used[name])), Limit: to.Ptr(int64(limit)), //nolint:gosec // few
		})
	}
	resp.AddPage(http.StatusOK,
		armcompute.UsageClientListResponse{ListUsagesResult: armcompute.ListUsagesResult{Value: all}}, nil)
	return resp
}

func customData(v *virtual) ([]byte, error) {
	return base64.StdEncoding.DecodeString(value(v.model.Properties.OSProfile.CustomData))
}
