package arm

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
)

// Reservation is a capacity reservation of the subscription.
type Reservation struct {
	ResourceGroup, Group, Name string
	Location, Zone, Size       string
	Count                      int
	Others                     int // other users' machines that run on it
	Creating                   bool
}

func (r *Reservation) groupID(subscription string) string {
	return "/subscriptions/" + subscription + "/resourceGroups/" + r.ResourceGroup +
		"/providers/Microsoft.Compute/capacityReservationGroups/" + r.Group
}

// Reserve adds a capacity reservation, whose resource group the subscription may read.
func (s *Server) Reserve(r *Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[strings.ToLower(r.ResourceGroup)] = true
	s.reserved = append(s.reserved, r)
}

// Unreserve removes a capacity reservation. Its machines keep running at their normal price.
func (s *Server) Unreserve(r *Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved = slices.DeleteFunc(s.reserved, func(k *Reservation) bool { return k == r })
}

// Beside returns the number of machines without a capacity reservation.
func (s *Server) Beside() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.machines {
		if v.reservation == nil && v.state != deleting {
			n++
		}
	}
	return n
}

func (c *call) reservedGroups() transport {
	return computefake.NewCapacityReservationGroupsServerTransport(&computefake.CapacityReservationGroupsServer{
		NewListBySubscriptionPager: c.listReservedGroups,
	})
}

func (c *call) reservations() transport {
	return computefake.NewCapacityReservationsServerTransport(&computefake.CapacityReservationsServer{
		NewListByCapacityReservationGroupPager: c.listReservations, Get: c.getReservation,
	})
}

func (c *call) listReservedGroups(*armcompute.CapacityReservationGroupsClientListBySubscriptionOptions) (
	resp fake.PagerResponder[armcompute.CapacityReservationGroupsClientListBySubscriptionResponse]) {
	var all []*armcompute.CapacityReservationGroup
	seen := map[string]bool{}
	for _, r := range c.reserved {
		id := r.groupID(c.cfg.Subscription)
		if !seen[id] {
			all = append(all, &armcompute.CapacityReservationGroup{ID: &id, Name: &r.Group, Location: &r.Location})
		}
		seen[id] = true
	}
	resp.AddPage(http.StatusOK, armcompute.CapacityReservationGroupsClientListBySubscriptionResponse{
		CapacityReservationGroupListResult: armcompute.CapacityReservationGroupListResult{Value: all}}, nil)
	return resp
}

func (c *call) listReservations(resources, group string,
	_ *armcompute.CapacityReservationsClientListByCapacityReservationGroupOptions) (
	resp fake.PagerResponder[armcompute.CapacityReservationsClientListByCapacityReservationGroupResponse]) {
	var all []*armcompute.CapacityReservation
	for _, r := range c.reserved {
		if strings.EqualFold(r.ResourceGroup, resources) && strings.EqualFold(r.Group, group) {
			one := c.reservation(r)
			one.Properties.InstanceView = nil // not in lists
			all = append(all, &one)
		}
	}
	resp.AddPage(http.StatusOK, armcompute.CapacityReservationsClientListByCapacityReservationGroupResponse{
		CapacityReservationListResult: armcompute.CapacityReservationListResult{Value: all}}, nil)
	return resp
}

func (c *call) getReservation(_ context.Context, resources, group, name string,
	_ *armcompute.CapacityReservationsClientGetOptions) (
	resp fake.Responder[armcompute.CapacityReservationsClientGetResponse], errResp fake.ErrorResponder) {
	i := slices.IndexFunc(c.reserved, func(r *Reservation) bool {
		return strings.EqualFold(r.ResourceGroup, resources) && strings.EqualFold(r.Group, group) &&
			strings.EqualFold(r.Name, name)
	})
	if i < 0 {
		errResp.SetError(fault(http.StatusNotFound, "ResourceNotFound", "The capacity reservation '%s' was not found.",
			name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.CapacityReservationsClientGetResponse{
		CapacityReservation: c.reservation(c.reserved[i])}, nil)
	return resp, errResp
}

func (c *call) reservation(r *Reservation) armcompute.CapacityReservation {
	id := r.groupID(c.cfg.Subscription) + "/capacityReservations/" + r.Name
	state := succeeded
	if r.Creating {
		state = creating
	}
	used := &armcompute.CapacityReservationUtilization{CurrentCapacity: to.Ptr(int32(r.Count))} //nolint:gosec // few
	for range r.Others {
		used.VirtualMachinesAllocated = append(used.VirtualMachinesAllocated,
			&armcompute.SubResourceReadOnly{ID: to.Ptr(c.idOf("Microsoft.Compute/virtualMachines", "another"))})
	}
	for _, v := range c.machines {
		if v.reservation == r && v.state != deleting {
			used.VirtualMachinesAllocated = append(used.VirtualMachinesAllocated,
				&armcompute.SubResourceReadOnly{ID: to.Ptr(c.idOf("Microsoft.Compute/virtualMachines", v.name))})
		}
	}
	one := armcompute.CapacityReservation{
		ID: &id, Name: &r.Name, Location: &r.Location,
		SKU: &armcompute.SKU{Name: &r.Size, Capacity: to.Ptr(int64(r.Count))},
		Properties: &armcompute.CapacityReservationProperties{ProvisioningState: &state,
			InstanceView: &armcompute.CapacityReservationInstanceView{UtilizationInfo: used}},
	}
	if r.Zone != "" {
		one.Zones = []*string{&r.Zone}
	}
	return one
}

// onReservation finds the reservation for a machine. It rejects a group that is missing or has none that fits. If the
// reservation is full, the machine runs outside of it at its normal price.
func (s *Server) onReservation(vm armcompute.VirtualMachine) (*Reservation, *Fault) {
	p := vm.Properties.CapacityReservation
	if p == nil || p.CapacityReservationGroup == nil {
		return nil, nil
	}
	id := value(p.CapacityReservationGroup.ID)
	zone := ""
	if len(vm.Zones) > 0 {
		zone = *vm.Zones[0]
	}
	fits := false
	for _, r := range s.reserved {
		if !strings.EqualFold(r.groupID(s.cfg.Subscription), id) || r.Location != *vm.Location || r.Zone != zone ||
			r.Size != string(*vm.Properties.HardwareProfile.VMSize) {
			continue
		}
		fits = true
		n := r.Others
		for _, v := range s.machines {
			if v.reservation == r && v.state != deleting {
				n++
			}
		}
		if n < r.Count {
			return r, nil
		}
	}
	if !fits {
		return nil, fault(http.StatusBadRequest, "InvalidParameter",
			"No matching capacity reservation was found in the capacityReservationGroup '%s'.", id)
	}
	return nil, nil
}
