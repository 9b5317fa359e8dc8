package arm

import (
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// Trouble is an injected failure of requests of one kind.
type Trouble struct {
	Kind  string // "PUT machine"; for methods and kinds see the routes
	Times int    // negative means forever
	After int    // number of requests that succeed before
	Fault *Fault // the answer; nil means that the answer gets lost
}

// Make injects a trouble from now on.
func (s *Server) Make(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, &t)
}

// FailLate makes the operations of the next new machines fail, after the first few.
func (s *Server) FailLate(after, times int, f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, &Trouble{After: after, Times: times, Fault: f})
}

// ClearTroubles ends all troubles.
func (s *Server) ClearTroubles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles, s.late, s.dry, s.lag, s.strand, s.skew = nil, nil, nil, 0, 0, 0
	s.denied = map[string]bool{}
	s.providers = map[string]bool{"microsoft.compute": true, "microsoft.network": true}
	s.registers, s.unknown = map[string]int{}, map[string]int{}
}

// trouble returns the injected failure of this request: an error instead of its execution, or the loss of its answer.
func (s *Server) trouble(kind string) (lose bool, instead error) {
	for _, t := range s.troubles {
		if t.Kind != kind || t.Times == 0 {
			continue
		}
		if t.After > 0 {
			t.After--
			continue
		}
		t.Times--
		if t.Fault == nil {
			return true, nil
		}
		return false, t.Fault
	}
	return false, nil
}

// failLate returns the error with which the operation of a new machine will end, or nil.
func (s *Server) failLate(v *virtual) *Fault {
	for _, t := range s.late {
		switch {
		case t.Times == 0:
		case t.After > 0:
			t.After--
		default:
			t.Times--
			return t.Fault
		}
	}
	for _, d := range s.dry {
		if !d.Late || !d.matches(v.size.Name, v.model) {
			continue
		}
		if len(v.model.Zones) > 0 {
			return fault(http.StatusConflict, "ZonalAllocationFailed",
				"Allocation failed. We do not have sufficient capacity for the requested VM size in this zone.")
		}
		return fault(http.StatusConflict, "AllocationFailed",
			"Allocation failed. We do not have sufficient capacity for the requested VM size in this region.")
	}
	return nil
}

// Shortage describes machines that are out of stock; empty fields match all.
type Shortage struct {
	Location, Zone, Size string
	Spot                 *bool
	Late                 bool // reported in the operation, not at once
}

func (d Shortage) matches(size string, vm armcompute.VirtualMachine) bool {
	spot := vm.Properties.Priority != nil && *vm.Properties.Priority == armcompute.VirtualMachinePriorityTypesSpot
	zone := ""
	if len(vm.Zones) > 0 {
		zone = *vm.Zones[0]
	}
	return (d.Location == "" || d.Location == value(vm.Location)) && (d.Zone == "" || d.Zone == zone) &&
		(d.Size == "" || d.Size == size) && (d.Spot == nil || *d.Spot == spot)
}

// Dry makes machines unavailable until Refill.
func (s *Server) Dry(d Shortage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dry = append(s.dry, d)
}

// Refill ends all shortages.
func (s *Server) Refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dry = nil
}

// Lag makes new machines missing from their first lists.
func (s *Server) Lag(lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = lists
}

// Strand makes the next removed machines leave their interfaces, addresses and disks behind.
func (s *Server) Strand(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strand = times
}

func (s *Server) takeStrand() bool {
	if s.strand == 0 {
		return false
	}
	s.strand--
	return true
}

// Skew sets how far Azure's clock is ahead, which makes tokens expire early.
func (s *Server) Skew(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = by
}

// Deny revokes the right to actions such as Microsoft.Compute/virtualMachines/write.
func (s *Server) Deny(actions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range actions {
		s.denied[strings.ToLower(a)] = true
	}
}

// Unregister removes a provider's registration.
func (s *Server) Unregister(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.providers[strings.ToLower(namespace)] = false
}

// Trial makes the subscription a free trial.
func (s *Server) Trial() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial = true
}

// Registering makes the registration for a provider be in progress for a number of reads.
func (s *Server) Registering(namespace string, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.providers[strings.ToLower(namespace)], s.registers[strings.ToLower(namespace)] = false, reads
}

// RemoveGroup removes the resource group.
func (s *Server) RemoveGroup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = map[string]bool{}
}

var providerPath = regexp.MustCompile(`(?i)/providers/(microsoft\.[a-z]+)/([a-z]+)`)

// actionOf returns the right that a request needs.
func actionOf(r *http.Request, kind string) string {
	verb := map[string]string{"GET": "read", "PUT": "write", "DELETE": "delete", "POST": "action"}[r.Method]
	switch kind {
	case "subscription", "locations", "provider":
		return "Microsoft.Resources/subscriptions/read"
	case "register":
		return "Microsoft.Compute/register/action"
	case "group":
		return "Microsoft.Resources/subscriptions/resourceGroups/" + verb
	case "resources":
		return "Microsoft.Resources/subscriptions/resourceGroups/resources/read"
	case "directory's right":
		return "Microsoft.Authorization/roleAssignments/" + verb
	case "savings plans":
		return "Microsoft.BillingBenefits/savingsPlanOrders/savingsPlans/read"
	case "reserved instances":
		return "Microsoft.Capacity/reservationOrders/reservations/read"
	case "ratios":
		return "Microsoft.Capacity/catalogs/read"
	case "usages":
		return "Microsoft.Compute/locations/usages/read"
	}
	all := providerPath.FindAllStringSubmatch(r.URL.Path, -1)
	if len(all) == 0 {
		return ""
	}
	return all[0][1] + "/" + all[0][2] + "/" + verb
}

// allowed rejects requests without the right, or without registration of the subscription.
func (s *Server) allowed(r *http.Request, kind string) error {
	action := actionOf(r, kind)
	if s.denied[strings.ToLower(action)] || s.denied["*"] {
		return fault(
			http.StatusForbidden,
			"AuthorizationFailed",
			"The client 'ada@example.com' with object id '7' does not have authorization to perform action '%s' "+
				"over scope '%s' or the scope is invalid. "+
				"If access was recently granted, please refresh your credentials.",
			action,
			r.URL.Path,
		)
	}
	if m := providerPath.FindStringSubmatch(r.URL.Path); m != nil && kind != "provider" && kind != "register" {
		if registered, known := s.providers[strings.ToLower(m[1])]; known && !registered {
			return fault(
				http.StatusConflict,
				"MissingSubscriptionRegistration",
				"The subscription is not registered to use namespace '%s'. See https://aka.ms/rps-not-found for "+
					"how to register subscriptions.",
				m[1],
			)
		}
	}
	return nil
}

// checkSubscription returns the subscription's reason against a new machine, such as quota, or nil. Other checks
// concern the request itself.
func (s *Server) checkSubscription(size Size, vm armcompute.VirtualMachine) *Fault {
	p := vm.Properties
	spot := p.Priority != nil && *p.Priority == armcompute.VirtualMachinePriorityTypesSpot
	zone := ""
	if len(vm.Zones) > 0 {
		zone = *vm.Zones[0]
	}
	if size.Restricted || spot && size.NoSpotCapable {
		return skuNotAvailable(size.Name, *vm.Location, zone)
	}
	if bid := p.BillingProfile; spot && bid != nil && bid.MaxPrice != nil && *bid.MaxPrice > 0 &&
		*bid.MaxPrice < size.SpotUSD {
		return fault(
			http.StatusConflict,
			"OperationNotAllowed",
			"Operation could not be completed as the max price provided ($%v) is lower than the current Spot "+
				"price for the VM size.",
			*bid.MaxPrice,
		)
	}
	for _, d := range s.dry {
		if !d.Late && d.matches(size.Name, vm) {
			return skuNotAvailable(size.Name, *vm.Location, zone)
		}
	}
	names := []string{"cores", size.Family}
	if spot {
		names = []string{"lowPriorityCores"}
	}
	used := s.used(*vm.Location)
	for _, name := range names {
		if limit, ok := s.cfg.Limits[name]; ok && used[name]+size.VCPU > limit {
			return fault(
				http.StatusConflict,
				"OperationNotAllowed",
				"Operation could not be completed as it results in exceeding approved %s Cores quota. "+
					"Additional details - Deployment Model: Resource Manager, "+
					"Location: %s, Current Limit: %d, Current Usage: %d, Additional Required: %d, (Minimum) New "+
					"Limit Required: %d.",
				name,
				*vm.Location,
				limit,
				used[name],
				size.VCPU,
				used[name]+size.VCPU,
			)
		}
	}
	return nil
}

// used counts vCPUs by quota in a location.
func (s *Server) used(location string) map[string]int {
	used := map[string]int{}
	for _, v := range s.machines {
		switch {
		case value(v.model.Location) != location:
		case v.spot():
			used["lowPriorityCores"] += v.size.VCPU
		default:
			used["cores"] += v.size.VCPU
			used[v.size.Family] += v.size.VCPU
		}
	}
	return used
}

// Limit sets a quota of vCPUs.
func (s *Server) Limit(name string, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := map[string]int{name: limit}
	for k, v := range s.cfg.Limits {
		if k != name {
			limits[k] = v
		}
	}
	s.cfg.Limits = limits
}

// Calls returns how often a kind of request was made.
func (s *Server) Calls(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kind]
}

// Unpublished returns the fields of requests that the published models lack.
func (s *Server) Unpublished() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strict)
}

// Left returns the names of the machines, except those that are being deleted.
func (s *Server) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, v := range s.machines {
		if v.state != deleting {
			left = append(left, v.name)
		}
	}
	sort.Strings(left)
	return left
}

// Leftovers returns the interfaces, addresses and disks without a machine.
func (s *Server) Leftovers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, r := range s.resources {
		if r.machine == nil && slices.Contains([]string{typeDisk, typeInterface, typeAddress}, r.kind) {
			left = append(left, r.kind+"/"+r.name)
		}
	}
	sort.Strings(left)
	return left
}

// RemoveResource removes all resources of a type, like another user.
func (s *Server) RemoveResource(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.resources {
		if r.kind == kind {
			delete(s.resources, id)
		}
	}
}
