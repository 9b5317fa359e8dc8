package arm

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"
)

// Types of machines and of the resources that belong to them.
const (
	typeMachine   = "Microsoft.Compute/virtualMachines"
	typeDisk      = "Microsoft.Compute/disks"
	typeInterface = "Microsoft.Network/networkInterfaces"
	typeAddress   = "Microsoft.Network/publicIPAddresses"
)

// resource is any resource except a machine.
type resource struct {
	kind, name string
	model      armresources.GenericResource
	machine    *virtual // to which it belongs
	dies       bool     // is deleted with its machine
	reserved   int      // how often its removal is rejected: an interface is reserved for its machine for 180 seconds
}

func (s *Server) idOf(kind, name string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/%s/%s", s.cfg.Subscription, s.cfg.Group, kind,
		name)
}

func (s *Server) add(kind, name string, v *virtual, tags map[string]*string, dies bool) {
	id := s.idOf(kind, name)
	s.resources[strings.ToLower(id)] = &resource{kind: kind, name: name, machine: v, dies: dies,
		model: armresources.GenericResource{
			ID:       &id,
			Name:     &name,
			Type:     to.Ptr(kind),
			Location: v.model.Location,
			Tags:     tags,
		}}
}

// network creates the resources that a machine's interface configurations request.
func (s *Server) network(v *virtual) {
	s.subnets++
	v.address = fmt.Sprintf("10.0.%d.%d", s.subnets/250, 4+s.subnets%250)
	for _, n := range v.model.Properties.NetworkProfile.NetworkInterfaceConfigurations {
		dies := value(n.Properties.DeleteOption) == armcompute.DeleteOptionsDelete
		s.add(typeInterface, value(n.Name), v, n.Tags, dies)
		for _, ip := range n.Properties.IPConfigurations {
			if public := ip.Properties.PublicIPAddressConfiguration; public != nil {
				dies := value(public.Properties.DeleteOption) == armcompute.DeleteOptionsDelete
				s.add(typeAddress, value(public.Name), v, public.Tags, dies)
			}
		}
	}
}

func (s *Server) attachDisk(v *virtual) {
	disk := v.model.Properties.StorageProfile.OSDisk
	name := value(disk.Name)
	if name == "" {
		name = v.name + "_OsDisk_1_" + strings.ReplaceAll(newID(), "-", "")
	}
	s.add(typeDisk, name, v, v.model.Tags, value(disk.DeleteOption) == armcompute.DiskDeleteOptionTypesDelete)
}

// forget removes a machine, and the resources that are deleted with it unless strand is set.
func (s *Server) forget(v *virtual, strand bool) {
	if s.machines[strings.ToLower(v.name)] == v {
		delete(s.machines, strings.ToLower(v.name))
	}
	for id, r := range s.resources {
		if r.machine != v {
			continue
		}
		r.machine = nil
		if r.dies && !strand {
			delete(s.resources, id)
		} else if r.kind == typeInterface {
			r.reserved = 1
		}
	}
}

var subnetID = regexp.MustCompile(
	`^(/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+)/subnets/([^/]+)$`,
)

// checkNetwork rejects interfaces that are incomplete or refer to missing resources.
func (s *Server) checkNetwork(n *armcompute.NetworkProfile) *Fault {
	bad := func(format string, args ...any) *Fault {
		return fault(http.StatusBadRequest, "InvalidParameter", format, args...)
	}
	if len(n.NetworkInterfaceConfigurations) == 0 || n.NetworkAPIVersion == nil {
		return bad("Required parameter 'networkProfile.networkInterfaceConfigurations' is missing (null).")
	}
	for _, c := range n.NetworkInterfaceConfigurations {
		if value(c.Name) == "" || c.Properties == nil || len(c.Properties.IPConfigurations) == 0 {
			return bad("Required parameter 'networkInterfaceConfigurations.name' is missing (null).")
		}
		if g := c.Properties.NetworkSecurityGroup; g != nil && s.resources[strings.ToLower(value(g.ID))] == nil {
			return invalidReference(value(g.ID))
		}
		for _, ip := range c.Properties.IPConfigurations {
			if ip.Properties == nil || ip.Properties.Subnet == nil {
				return bad("Required parameter 'subnet' is missing (null).")
			}
			m := subnetID.FindStringSubmatch(value(ip.Properties.Subnet.ID))
			if m == nil || !s.hasSubnet(m[1], m[2]) {
				return invalidReference(value(ip.Properties.Subnet.ID))
			}
			public := ip.Properties.PublicIPAddressConfiguration
			if public != nil &&
				(public.SKU == nil || value(public.SKU.Name) != armcompute.PublicIPAddressSKUNameStandard) {
				return fault(
					http.StatusBadRequest,
					"IPv4BasicSkuPublicIpCountLimitReached",
					"Cannot create more than 0 IPv4 Basic SKU public IP addresses for this subscription in this "+
						"region.",
				)
			}
		}
	}
	return nil
}

func invalidReference(id string) *Fault {
	return fault(
		http.StatusBadRequest,
		"InvalidResourceReference",
		"Resource %s referenced by the virtual machine was not found. Please make sure that the referenced "+
			"resource exists, and that both resources are in the same region.",
		id,
	)
}

func (s *Server) hasSubnet(network, subnet string) bool {
	r := s.resources[strings.ToLower(network)]
	if r == nil {
		return false
	}
	properties, _ := r.model.Properties.(map[string]any)
	subnets, _ := properties["subnets"].([]any)
	return slices.ContainsFunc(subnets, func(one any) bool {
		m, _ := one.(map[string]any)
		return m["name"] == subnet
	})
}

// roleReads is the number of assignments that do not find a new role.
const roleReads = 2

// put creates or changes a resource of any type.
func (c *call) put(_ context.Context, id, apiVersion string, model armresources.GenericResource,
	_ *armresources.ClientBeginCreateOrUpdateByIDOptions) (
	resp fake.PollerResponder[armresources.ClientCreateOrUpdateByIDResponse], errResp fake.ErrorResponder) {
	id, kind, name := split(id)
	if apiVersion == "" || kind == "" {
		errResp.SetError(
			fault(http.StatusBadRequest, "MissingApiVersionParameter",
				"The api-version query parameter (?api-version=) is required for all requests."),
		)
		return resp, errResp
	}
	if f := c.checkResource(kind, model); f != nil {
		errResp.SetError(f)
		return resp, errResp
	}
	model.ID, model.Name, model.Type = &id, &name, &kind
	status := http.StatusOK
	r := c.resources[strings.ToLower(id)]
	if r == nil {
		r = &resource{kind: kind, name: name}
		c.resources[strings.ToLower(id)] = r
		status = http.StatusCreated
		if kind == typeRole { // new roles are not known everywhere at once (terraform-provider-azurerm issue 5038)
			c.unknown[strings.ToLower(id)] = roleReads
		}
	}
	if kind == typeIdentity {
		model.Properties = map[string]any{"clientId": newID(), "principalId": newID(), "tenantId": "t1"}
	}
	r.model = model
	if model.Location != nil { // a resource without a location exists at once
		c.op = c.begin(*model.Location, func() *Fault { return nil })
	}
	resp.SetTerminalResponse(status, armresources.ClientCreateOrUpdateByIDResponse{GenericResource: model}, nil)
	return resp, errResp
}

// checkResource rejects networks without addresses, and resources that refer to missing ones.
func (s *Server) checkResource(kind string, model armresources.GenericResource) *Fault {
	properties, _ := model.Properties.(map[string]any)
	switch {
	case kind == typeRole || kind == typeAssignment || kind == typeTrust:
		return s.checkRights(kind, properties)
	case value(model.Location) == "":
		return fault(http.StatusBadRequest, "LocationRequired",
			"The location property is required for this definition.")
	case kind != "Microsoft.Network/virtualNetworks":
		return nil
	}
	space, _ := properties["addressSpace"].(map[string]any)
	if prefixes, _ := space["addressPrefixes"].([]any); len(prefixes) == 0 {
		return fault(http.StatusBadRequest, "VnetAddressSpaceNotSpecified",
			"Address space for virtual network is not specified.")
	}
	subnets, _ := properties["subnets"].([]any)
	for _, one := range subnets {
		subnet, _ := one.(map[string]any)
		of, _ := subnet["properties"].(map[string]any)
		group, _ := of["networkSecurityGroup"].(map[string]any)
		if id, ok := group["id"].(string); ok && s.resources[strings.ToLower(id)] == nil {
			return invalidReference(id)
		}
	}
	return nil
}

func split(path string) (id, kind, name string) {
	id = "/" + strings.Trim(path, "/")
	at := strings.LastIndex(id, "/providers/") // the part before it may also be of a provider
	if at <= 0 {
		return id, "", ""
	}
	parts := strings.Split(id[at+len("/providers/"):], "/")
	if len(parts) < 3 || len(parts)%2 == 0 {
		return id, "", ""
	}
	kind = parts[0]
	for i := 1; i < len(parts); i += 2 {
		kind += "/" + parts[i]
	}
	return id, kind, parts[len(parts)-1]
}

func (c *call) getByID(_ context.Context, id, _ string, _ *armresources.ClientGetByIDOptions) (
	resp fake.Responder[armresources.ClientGetByIDResponse], errResp fake.ErrorResponder) {
	id, kind, name := split(id)
	if m := subnetID.FindStringSubmatch(id); m != nil && c.hasSubnet(m[1], m[2]) {
		resp.SetResponse(http.StatusOK, armresources.ClientGetByIDResponse{
			GenericResource: armresources.GenericResource{ID: &id, Name: &m[2]}}, nil)
		return resp, errResp
	}
	r := c.resources[strings.ToLower(id)]
	if r == nil {
		errResp.SetError(
			fault(http.StatusNotFound, "ResourceNotFound",
				"The Resource '%s/%s' under resource group '%s' was not found.", kind, name, c.cfg.Group),
		)
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armresources.ClientGetByIDResponse{GenericResource: r.model}, nil)
	return resp, errResp
}

func (c *call) removeByID(_ context.Context, id, _ string, _ *armresources.ClientBeginDeleteByIDOptions) (
	resp fake.PollerResponder[armresources.ClientDeleteByIDResponse], errResp fake.ErrorResponder) {
	id, _, _ = split(id)
	r := c.resources[strings.ToLower(id)]
	switch {
	case r == nil:
		resp.SetTerminalResponse(http.StatusNoContent, armresources.ClientDeleteByIDResponse{}, nil)
	case r.machine != nil:
		errResp.SetError(
			fault(http.StatusConflict, "OperationNotAllowed", "%s is attached to VM %s.", r.name, r.machine.name),
		)
	case r.reserved > 0:
		r.reserved--
		errResp.SetError(fault(
			http.StatusBadRequest,
			"NicReservedForAnotherVm",
			"Nic(s) in request is reserved for another Virtual Machine for 180 seconds. Please provide another "+
				"nic(s) or retry after 180 seconds.",
		))
	default:
		delete(c.resources, strings.ToLower(id))
		if r.model.Location == nil {
			resp.SetTerminalResponse(http.StatusOK, armresources.ClientDeleteByIDResponse{}, nil)
			return resp, errResp
		}
		c.op = c.begin(*r.model.Location, func() *Fault { return nil })
		resp.SetTerminalResponse(http.StatusAccepted, armresources.ClientDeleteByIDResponse{}, nil)
	}
	return resp, errResp
}

var nameFilter = regexp.MustCompile(`^substringof\('([^']*)', ?name\)$`)

// listResources lists the resources of the group, with a name filter if requested.
func (c *call) listResources(_ string, o *armresources.ClientListByResourceGroupOptions) (
	resp fake.PagerResponder[armresources.ClientListByResourceGroupResponse]) {
	part := ""
	if o != nil && o.Filter != nil {
		m := nameFilter.FindStringSubmatch(*o.Filter)
		if m == nil {
			resp.AddError(
				fault(http.StatusBadRequest, "InvalidFilterInQueryString",
					"Invalid $filter '%s' specified in the query string.", *o.Filter),
			)
			return resp
		}
		part = strings.ToLower(m[1])
	}
	var all []*armresources.GenericResourceExpanded
	add := func(id, name, kind string, location *string, tags map[string]*string) {
		if strings.Contains(strings.ToLower(name), part) {
			all = append(
				all,
				&armresources.GenericResourceExpanded{
					ID:       &id,
					Name:     &name,
					Type:     &kind,
					Location: location,
					Tags:     tags,
				},
			)
		}
	}
	for _, r := range c.resources {
		add(value(r.model.ID), r.name, r.kind, r.model.Location, r.model.Tags)
	}
	for _, v := range c.machines {
		add(c.idOf(typeMachine, v.name), v.name, typeMachine, v.model.Location, v.model.Tags)
	}
	slices.SortFunc(all, func(a, b *armresources.GenericResourceExpanded) int { return strings.Compare(*a.ID, *b.ID) })
	resp.AddPage(http.StatusOK, armresources.ClientListByResourceGroupResponse{
		ResourceListResult: armresources.ResourceListResult{Value: all}}, nil)
	return resp
}
