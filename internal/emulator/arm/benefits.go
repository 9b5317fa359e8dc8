package arm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// Plan is a savings plan of the directory.
type Plan struct {
	ID       string // the plan's ID
	USD      float64
	Currency string  // empty means USD
	Term     string  // empty means P1Y
	Scope    string  // Shared, Single or ManagementGroup; empty means Shared
	Of       string  // the subscription, for scope Single; empty means this one
	Group    string  // the resource group, for scope Single
	State    string  // empty means Succeeded
	Used     float64 // share used in the last day
	Starts   time.Time
	Until    time.Time
}

// Commit adds savings plans to the directory.
func (s *Server) Commit(plans ...Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = append(s.plans, plans...)
}

// RunOthers makes other users run machines of a size in the subscription, on demand or spot.
func (s *Server) RunOthers(size, location string, n int, spot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		name := "another-" + strconv.Itoa(len(s.machines))
		vm := armcompute.VirtualMachine{Location: &location, Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: (*armcompute.VirtualMachineSizeTypes)(&size)}}}
		if spot {
			vm.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
		}
		v := &virtual{name: name, model: vm, id: newID(), state: succeeded, running: true, made: s.cfg.Now()}
		for _, z := range s.cfg.Sizes {
			if z.Name == size {
				v.size = z
			}
		}
		s.machines[name] = v
	}
}

// ReservedInstances is a reservation of virtual machines of the directory.
type ReservedInstances struct {
	Size, Location string
	Count          int
	Kind           string // empty means VirtualMachines
	Flexible       string // empty means On
	Scope          string // empty means Shared
	Of             string // the subscription, for scope Single
	State          string // empty means Succeeded
	Until          time.Time
}

// Buy adds reservations of virtual machines to the directory.
func (s *Server) Buy(all ...ReservedInstances) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bought = append(s.bought, all...)
}

// reservedInstances answers "Reservation - List All" of 2022-11-01.
func (s *Server) reservedInstances(w http.ResponseWriter, r *http.Request) error {
	if err := s.allowed(r, "reserved instances"); err != nil {
		return err
	}
	type m = map[string]any
	var all []any
	for i, b := range s.bought {
		is := m{"provisioningState": cmp.Or(b.State, succeeded),
			"reservedResourceType": cmp.Or(b.Kind, "VirtualMachines"), "quantity": b.Count,
			"instanceFlexibility": cmp.Or(b.Flexible, "On"), "term": "P1Y",
			"appliedScopeType": cmp.Or(b.Scope, "Shared")}
		if b.Of != "" {
			is["appliedScopes"] = []string{"/subscriptions/" + b.Of}
		}
		if !b.Until.IsZero() {
			is["expiryDateTime"] = b.Until.UTC().Format(time.RFC3339Nano)
		}
		all = append(all, m{"location": b.Location, "sku": m{"name": b.Size}, "properties": is,
			"id": "/providers/microsoft.capacity/reservationOrders/1/reservations/" + strconv.Itoa(i)})
	}
	return s.part(w, r, all)
}

// ratios answers "Get Catalog", for sizes with a ratio.
func (s *Server) ratios(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := s.allowed(r, "ratios"); err != nil {
		return err
	}
	if query.Get("reservedResourceType") != "VirtualMachines" || query.Get("location") == "" {
		return fault(http.StatusBadRequest, "InvalidLocationForCatalogRequest", "The location is not valid.")
	}
	type m = map[string]any
	var all []any
	for _, z := range s.cfg.Sizes {
		if z.Ratio != "" {
			all = append(all, m{"resourceType": "virtualMachines", "name": z.Name, "skuProperties": []m{
				{"name": "Cores", "value": strconv.Itoa(z.VCPU)},
				{"name": "ReservationsAutofitGroup", "value": z.Series},
				{"name": "ReservationsAutofitRatio", "value": z.Ratio}}})
		}
	}
	return s.part(w, r, all)
}

// benefitsPage is the number of plans in a page.
const benefitsPage = 2

// savingsPlans answers "Savings Plan - List All" of 2022-11-01.
func (s *Server) savingsPlans(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if query.Get("api-version") != "2022-11-01" {
		return fault(http.StatusBadRequest, "InvalidApiVersionParameter", "The api-version '%s' is invalid.",
			query.Get("api-version"))
	}
	if err := s.allowed(r, "savings plans"); err != nil {
		return err
	}
	type m = map[string]any
	var all []any
	for _, p := range s.plans {
		id := "/providers/microsoft.billingbenefits/savingsPlanOrders/20000000-0000-0000-0000-000000000000" +
			"/savingsPlans/" + p.ID
		scope := cmp.Or(p.Scope, "Shared")
		is := m{
			"displayName": "Compute_SavingsPlan", "provisioningState": cmp.Or(p.State, succeeded),
			"term": cmp.Or(p.Term, "P1Y"), "appliedScopeType": scope, "renew": false,
			"commitment": m{"grain": "Hourly", "currencyCode": cmp.Or(p.Currency, "USD"), "amount": p.USD},
			"utilization": m{"trend": "SAME", "aggregates": []any{
				m{"grain": 1, "grainUnit": "days", "value": 100 * p.Used, "valueUnit": "percentage"},
				m{"grain": 7, "grainUnit": "days", "value": 1, "valueUnit": "percentage"},
			}},
		}
		if scope == "Single" {
			of := m{"subscriptionId": "/subscriptions/" + cmp.Or(p.Of, s.cfg.Subscription)}
			if p.Group != "" {
				of["resourceGroupId"] = of["subscriptionId"].(string) + "/resourceGroups/" + p.Group
			}
			is["appliedScopeProperties"] = of
		}
		if !p.Starts.IsZero() {
			is["benefitStartTime"] = p.Starts.UTC().Format(time.RFC3339Nano)
		}
		if !p.Until.IsZero() {
			is["expiryDateTime"] = p.Until.UTC().Format(time.RFC3339Nano)
		}
		all = append(all, m{"id": id, "name": "20000000-0000-0000-0000-000000000000/" + p.ID,
			"type": "Microsoft.BillingBenefits/savingsPlanOrders/savingsPlans",
			"sku":  m{"name": "Compute_Savings_Plan"}, "properties": is})
	}
	return s.part(w, r, all)
}

// part writes the part of a list that $skiptoken requests.
func (s *Server) part(w http.ResponseWriter, r *http.Request, all []any) error {
	query := r.URL.Query()
	from, _ := strconv.Atoi(query.Get("$skiptoken"))
	from = min(max(from, 0), len(all))
	to := min(from+benefitsPage, len(all))
	answer := map[string]any{"value": append([]any{}, all[from:to]...)}
	if to < len(all) {
		next := query
		next.Set("$skiptoken", strconv.Itoa(to))
		answer["nextLink"] = "http://" + r.Host + r.URL.Path + "?" + next.Encode()
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(w).Encode(answer)
}
