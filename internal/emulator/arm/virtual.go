package arm

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Provisioning states of a machine.
const (
	creating  = "Creating"
	succeeded = "Succeeded"
	failed    = "Failed"
	deleting  = "Deleting"
)

// virtual is a virtual machine.
type virtual struct {
	name    string
	model   armcompute.VirtualMachine // as requested
	size    Size
	id      string // unique
	state   string
	made    time.Time
	running bool
	stopped bool // powered off from inside: still billed
	failure *Fault
	op      *operation
	unseen  int // number of next lists that lack it
	address string
	bill    int // its line in the bill, from 1

	reservation *Reservation // the reservation that it uses

	process *emulator.Machine
	service *imdstest.AzureMachine
}

func (v *virtual) spot() bool {
	p := v.model.Properties.Priority
	return p != nil && *p == armcompute.VirtualMachinePriorityTypesSpot
}

// create handles the PUT of a machine.
func (c *call) create(_ context.Context, _, name string, vm armcompute.VirtualMachine,
	o *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (
	resp fake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], errResp fake.ErrorResponder) {
	if old, ok := c.machines[strings.ToLower(name)]; ok {
		if f := conflict(old, vm, o); f != nil {
			errResp.SetError(f)
			return resp, errResp
		}
		resp.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientCreateOrUpdateResponse{
			VirtualMachine: c.describe(old, false)}, nil)
		return resp, errResp
	}
	size, f := c.check(vm)
	var on *Reservation
	if f == nil {
		on, f = c.onReservation(vm)
	}
	if f == nil && on == nil {
		f = c.checkSubscription(size, vm)
	}
	if f != nil {
		errResp.SetError(f)
		return resp, errResp
	}
	v := &virtual{name: name, model: vm, size: size, id: newID(), state: creating, made: c.cfg.Now(), unseen: c.lag,
		reservation: on}
	c.machines[strings.ToLower(name)] = v
	c.network(v)
	location := *vm.Location
	v.failure = c.failLate(v)
	v.op = c.begin(location, func() *Fault { return c.finish(v) })
	c.op = v.op
	resp.SetTerminalResponse(http.StatusCreated, armcompute.VirtualMachinesClientCreateOrUpdateResponse{
		VirtualMachine: c.describe(v, false)}, nil)
	return resp, errResp
}

// conflict returns why a PUT on an existing machine is not allowed, or nil.
func conflict(old *virtual, vm armcompute.VirtualMachine,
	o *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) *Fault {
	switch {
	case o != nil && o.IfNoneMatch != nil && *o.IfNoneMatch == "*":
		return fault(http.StatusPreconditionFailed, "ConditionNotMet",
			"The condition 'If-None-Match: *' is not satisfied: %s exists.", old.name)
	case old.state == deleting:
		return fault(http.StatusConflict, "Conflict",
			"The request failed due to conflict with a concurrent request: %s is being deleted.", old.name)
	case vm.Properties == nil || vm.Properties.OSProfile == nil ||
		value(vm.Properties.OSProfile.CustomData) != value(old.model.Properties.OSProfile.CustomData):
		return fault(http.StatusConflict, "PropertyChangeNotAllowed",
			"Changing property 'osProfile.customData' is not allowed.")
	case keyOf(vm) != keyOf(old.model):
		return fault(http.StatusConflict, "PropertyChangeNotAllowed",
			"Changing property 'linuxConfiguration.ssh.publicKeys' is not allowed.")
	}
	return nil
}

// keyOf returns the SSH key of a machine.
func keyOf(vm armcompute.VirtualMachine) string {
	linux := vm.Properties.OSProfile.LinuxConfiguration
	if linux == nil || linux.SSH == nil || len(linux.SSH.PublicKeys) == 0 {
		return ""
	}
	return value(linux.SSH.PublicKeys[0].KeyData)
}

// check rejects machines that are invalid in every subscription.
func (s *Server) check(vm armcompute.VirtualMachine) (size Size, f *Fault) {
	bad := func(target, format string, args ...any) (Size, *Fault) {
		return Size{}, fault(http.StatusBadRequest, "InvalidParameter", "%s (target: %s)",
			fmt.Sprintf(format, args...), target)
	}
	p := vm.Properties
	location := slices.IndexFunc(s.cfg.Locations, func(l Location) bool { return l.Name == value(vm.Location) })
	if location < 0 {
		return Size{}, fault(http.StatusBadRequest, "LocationNotAvailableForResourceType",
			"The provided location '%s' is not available for resource type 'Microsoft.Compute/virtualMachines'.",
			value(vm.Location))
	}
	if p == nil || p.HardwareProfile == nil || p.OSProfile == nil || p.StorageProfile == nil ||
		p.NetworkProfile == nil {
		return bad("properties", "Required parameter is missing (null).")
	}
	at := slices.IndexFunc(s.cfg.Sizes, func(z Size) bool { return z.Name == string(*p.HardwareProfile.VMSize) })
	if at < 0 {
		return bad("vmSize", "The requested VM size %s is not available in the current region. The sizes available in "+
			"the current region are: %s", *p.HardwareProfile.VMSize, s.cfg.Sizes[0].Name)
	}
	size = s.cfg.Sizes[at]
	if f := cmp.Or(checkSecurity(p.SecurityProfile, size), checkOS(p.OSProfile)); f != nil {
		return size, f
	}
	if f := s.checkDisk(p.StorageProfile, size); f != nil {
		return size, f
	}
	zone := ""
	if len(vm.Zones) > 0 {
		zone = value(vm.Zones[0])
		if _, ok := s.cfg.Locations[location].Zones[zone]; !ok || !slices.Contains(size.Zones, zone) {
			return size, skuNotAvailable(size.Name, value(vm.Location), zone)
		}
	}
	if p.EvictionPolicy != nil && (p.Priority == nil || *p.Priority == armcompute.VirtualMachinePriorityTypesRegular) {
		return bad("evictionPolicy", "Eviction policy can be set only on Azure Spot Virtual Machines.")
	}
	if p.BillingProfile != nil && p.BillingProfile.MaxPrice != nil && *p.BillingProfile.MaxPrice <= 0 &&
		*p.BillingProfile.MaxPrice != -1 {
		return bad("billingProfile.maxPrice", "Max price must be -1 or greater than zero.")
	}
	return size, s.checkNetwork(p.NetworkProfile)
}

func skuNotAvailable(size, location, zone string) *Fault {
	where := location
	if zone != "" {
		where += "' zone '" + zone
	}
	return fault(
		http.StatusConflict,
		"SkuNotAvailable",
		"The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: %s' is "+
			"currently not available in location '%s'. "+
			"Please try another size or deploy to a different location or different zone.",
		size,
		where,
	)
}

// finish ends the creation of a machine.
func (s *Server) finish(v *virtual) *Fault {
	if v.state != creating {
		return v.failure
	}
	if v.failure != nil {
		v.state = failed
		return v.failure
	}
	v.state, v.running = succeeded, true
	s.attachDisk(v)
	s.open(v)
	if err := s.boot(v); err != nil {
		v.state, v.running, v.failure = failed, false, fault(http.StatusConflict, "VMStartTimedOut", "%v", err)
		return v.failure
	}
	return nil
}

// remove handles the DELETE of a machine and of the resources deleted with it.
func (c *call) remove(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientBeginDeleteOptions) (
	resp fake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], errResp fake.ErrorResponder) {
	v, ok := c.machines[strings.ToLower(name)]
	if !ok {
		resp.SetTerminalResponse(http.StatusNoContent, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
		return resp, errResp
	}
	if v.state != deleting {
		c.end(v)
		v.state = deleting
		v.op = c.begin(*v.model.Location, func() *Fault { c.forget(v, c.takeStrand()); return nil })
	}
	c.op = v.op
	resp.SetTerminalResponse(http.StatusAccepted, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
	return resp, errResp
}

// get handles the GET of a machine.
func (c *call) get(_ context.Context, _, name string, o *armcompute.VirtualMachinesClientGetOptions) (
	resp fake.Responder[armcompute.VirtualMachinesClientGetResponse], errResp fake.ErrorResponder) {
	v, ok := c.machines[strings.ToLower(name)]
	if ok && v.op != nil {
		c.step(v.op)
		v, ok = c.machines[strings.ToLower(name)] // it may have been removed
	}
	if !ok {
		errResp.SetError(fault(http.StatusNotFound, "ResourceNotFound",
			"The Resource 'Microsoft.Compute/virtualMachines/%s' under resource group '%s' was not found.", name,
			c.cfg.Group))
		return resp, errResp
	}
	view := o != nil && o.Expand != nil && *o.Expand == armcompute.InstanceViewTypesInstanceView
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: c.describe(v, view)},
		nil)
	return resp, errResp
}

// describe returns a machine as in answers.
func (s *Server) describe(v *virtual, view bool) armcompute.VirtualMachine {
	vm, p := v.model, *v.model.Properties
	if p.OSProfile != nil { // answers omit its secrets
		os := *p.OSProfile
		os.CustomData, os.AdminPassword = nil, nil
		p.OSProfile = &os
	}
	p.ProvisioningState, p.VMID, p.TimeCreated = to.Ptr(v.state), to.Ptr(v.id), to.Ptr(v.made.UTC())
	if view {
		p.InstanceView = v.view()
	}
	vm.Properties = &p
	vm.Name, vm.Type = to.Ptr(v.name), to.Ptr("Microsoft.Compute/virtualMachines")
	vm.ID = to.Ptr(s.idOf("Microsoft.Compute/virtualMachines", v.name))
	return vm
}

// view returns the platform's view of a machine's state.
func (v *virtual) view() *armcompute.VirtualMachineInstanceView {
	status := func(code, display, message string) *armcompute.InstanceViewStatus {
		s := &armcompute.InstanceViewStatus{
			Code:          &code,
			DisplayStatus: &display,
			Level:         to.Ptr(armcompute.StatusLevelTypesInfo),
		}
		if message != "" {
			s.Message, s.Level = &message, to.Ptr(armcompute.StatusLevelTypesError)
		}
		return s
	}
	var all []*armcompute.InstanceViewStatus
	switch {
	case v.state == failed && v.failure != nil:
		all = append(all, status("ProvisioningState/failed/"+v.failure.Code, "Provisioning "+
			"failed", v.failure.Message))
	default:
		all = append(all,
			status("ProvisioningState/"+strings.ToLower(v.state), "Provisioning "+strings.ToLower(v.state), ""))
	}
	switch {
	case v.stopped:
		all = append(all, status("PowerState/stopped", "VM stopped", ""))
	case v.running:
		all = append(all, status("PowerState/running", "VM running", ""))
	}
	return &armcompute.VirtualMachineInstanceView{Statuses: all}
}

// list returns a page of the group's machines.
func (c *call) list(string, *armcompute.VirtualMachinesClientListOptions) (
	resp fake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
	page, next := c.page(false)
	resp.AddPage(http.StatusOK, armcompute.VirtualMachinesClientListResponse{
		VirtualMachineListResult: armcompute.VirtualMachineListResult{Value: page, NextLink: next}}, nil)
	return resp
}

// listAll returns a page of the subscription's machines, with only their states if requested.
func (c *call) listAll(o *armcompute.VirtualMachinesClientListAllOptions) (
	resp fake.PagerResponder[armcompute.VirtualMachinesClientListAllResponse]) {
	page, next := c.page(o != nil && value(o.StatusOnly) == "true")
	resp.AddPage(http.StatusOK, armcompute.VirtualMachinesClientListAllResponse{
		VirtualMachineListResult: armcompute.VirtualMachineListResult{Value: page, NextLink: next}}, nil)
	return resp
}

// page returns the part of the list that the query's token requests. A lagging list lacks new machines.
func (c *call) page(status bool) (page []*armcompute.VirtualMachine, next *string) {
	var all []*virtual
	for _, v := range c.machines {
		if v.unseen > 0 {
			v.unseen--
			continue
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *virtual) int { return strings.Compare(a.name, b.name) })
	from, _ := strconv.Atoi(c.query.Get("$skiptoken"))
	from = min(max(from, 0), len(all))
	to := min(from+c.cfg.Page, len(all))
	for _, v := range all[from:to] {
		vm := c.describe(v, status)
		if status {
			vm = armcompute.VirtualMachine{ID: vm.ID, Name: vm.Name, Location: vm.Location,
				Properties: &armcompute.VirtualMachineProperties{InstanceView: vm.Properties.InstanceView}}
		}
		page = append(page, &vm)
	}
	if to < len(all) {
		query := c.query
		query.Set("$skiptoken", strconv.Itoa(to))
		link := c.base + "?" + query.Encode()
		next = &link
	}
	return page, next
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
