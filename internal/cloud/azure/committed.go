package azure

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// benefitsVersion is the API version of Microsoft.BillingBenefits and Microsoft.Capacity, the latest that is not a
// preview.
const benefitsVersion = "2022-11-01"

// mostBenefits is the maximum number of pages that are read of the directory's purchases.
const mostBenefits = 100

// SavingsPlan is a commitment to pay an hourly amount for machines of any type, in any region.
type SavingsPlan struct {
	ID         string // the plan's ID, without its order
	USDPerHour float64
	Years      int // term, which determines its rates: 1 or 3
	Until      time.Time
	// Used is the share of its whole scope that was used in the last day. A value below 0 means unknown.
	Used float64
}

// savingsPlan is a plan as returned by "Savings Plan - List All".
type savingsPlan struct {
	ID  string `json:"id"`
	SKU struct {
		Name string `json:"name"`
	} `json:"sku"`
	Properties struct {
		State      string       `json:"provisioningState"`
		Term       string       `json:"term"`
		ScopeType  string       `json:"appliedScopeType"`
		Scope      appliedScope `json:"appliedScopeProperties"`
		Commitment struct {
			Grain    string  `json:"grain"`
			Currency string  `json:"currencyCode"`
			Amount   float64 `json:"amount"`
		} `json:"commitment"`
		Starts      string      `json:"benefitStartTime"`
		Until       string      `json:"expiryDateTime"`
		Utilization utilization `json:"utilization"`
	} `json:"properties"`
}

// appliedScope is the subscription or resource group to which a benefit is limited.
type appliedScope struct {
	Subscription  string `json:"subscriptionId"`
	ResourceGroup string `json:"resourceGroupId"`
}

// utilization is the used share of a benefit over some days, in per cent.
type utilization struct {
	Aggregates []struct {
		Grain     float64 `json:"grain"`
		GrainUnit string  `json:"grainUnit"`
		Value     float64 `json:"value"`
		ValueUnit string  `json:"valueUnit"`
	} `json:"aggregates"`
}

// lastDay returns the share that was used in the last day. A value below 0 means unknown.
func (u utilization) lastDay() float64 {
	for _, a := range u.Aggregates {
		if a.Grain == 1 && strings.EqualFold(a.GrainUnit, "days") && strings.EqualFold(a.ValueUnit, "percentage") {
			return a.Value / 100
		}
	}
	return -1
}

// forUs reports whether a benefit is for machines of the deployment. For a management group it returns false, because
// it is not known which subscriptions are in it.
func (c *Cloud) forUs(scopeType string, s appliedScope) bool {
	switch scopeType {
	case "Shared":
		return true
	case "Single":
		group := s.ResourceGroup[strings.LastIndexByte(s.ResourceGroup, '/')+1:]
		return strings.EqualFold(strings.TrimPrefix(s.Subscription, "/subscriptions/"), c.cfg.Subscription) &&
			(group == "" || strings.EqualFold(group, c.cfg.ResourceGroup))
	}
	return false
}

// SavingsPlans returns the active savings plans for machines of the deployment. They belong to the directory, not to
// the subscription. A caller without rights in the directory gets none, or an error.
func (c *Cloud) SavingsPlans(ctx context.Context) ([]SavingsPlan, error) {
	return inForce(ctx, c, "/providers/Microsoft.BillingBenefits/savingsPlans", c.savingsPlan)
}

func (c *Cloud) savingsPlan(p *savingsPlan) (one SavingsPlan, ok bool) {
	is := &p.Properties
	years := map[string]int{"P1Y": 1, "P3Y": 3}[is.Term]
	if p.SKU.Name != "Compute_Savings_Plan" || is.State != stateSucceeded || years == 0 ||
		is.Commitment.Grain != "Hourly" || is.Commitment.Currency != "USD" || !(is.Commitment.Amount > 0) ||
		!c.forUs(is.ScopeType, is.Scope) {
		return one, false
	}
	one = SavingsPlan{ID: p.ID[strings.LastIndexByte(p.ID, '/')+1:], USDPerHour: is.Commitment.Amount, Years: years,
		Used: is.Utilization.lastDay()}
	starts, err := time.Parse(time.RFC3339, is.Starts)
	if err == nil && starts.After(c.now()) {
		return one, false
	}
	if one.Until, err = time.Parse(time.RFC3339, is.Until); err == nil && !one.Until.After(c.now()) {
		return one, false
	}
	return one, true
}

// inForce lists the benefits for which read returns ok.
func inForce[T, B any](ctx context.Context, c *Cloud, path string, read func(*T) (B, bool)) (all []B, err error) {
	err = list(ctx, c, path, url.Values{}, func(t *T) {
		if one, ok := read(t); ok {
			all = append(all, one)
		}
	})
	return all, err
}

// list calls each for every element of a list, on all pages. It is for lists that the SDK's linked clients cannot
// read. Errors are *cloud.Error.
func list[T any](ctx context.Context, c *Cloud, path string, query url.Values, each func(*T)) error {
	query.Set("api-version", benefitsVersion)
	for range mostBenefits {
		var page struct {
			Value []T    `json:"value"`
			Next  string `json:"nextLink"`
		}
		if err := c.askFor(ctx, path, query, &page); err != nil {
			return Typed(err)
		}
		for i := range page.Value {
			each(&page.Value[i])
		}
		if page.Next == "" {
			return nil
		}
		u, err := url.Parse(page.Next)
		if err != nil {
			return fmt.Errorf("%s: invalid address of the next page: %.100q", path, page.Next)
		}
		path, query = u.Path, u.Query() // always on the same host, because the token is sent there
	}
	return fmt.Errorf("%s: more than %d pages", path, mostBenefits)
}

// Reservation is a number of machines that the directory has prepaid. It changes the price of machines of its type.
// If it is flexible, it does so for all sizes of its group.
type Reservation struct {
	Region, InstanceType string
	Count                int
	Flexible             bool
	Until                time.Time
}

// reservedVM is a reservation as returned by "Reservation - List All".
type reservedVM struct {
	Location string `json:"location"`
	SKU      struct {
		Name string `json:"name"`
	} `json:"sku"`
	Properties struct {
		Kind      string       `json:"reservedResourceType"`
		Flexible  string       `json:"instanceFlexibility"`
		State     string       `json:"provisioningState"`
		Quantity  int          `json:"quantity"`
		ScopeType string       `json:"appliedScopeType"`
		Scope     appliedScope `json:"appliedScopeProperties"`
		Scopes    []string     `json:"appliedScopes"`
		Until     string       `json:"expiryDateTime"`
	} `json:"properties"`
}

// ReservedInstances returns the active reservations of virtual machines for machines of the deployment in its
// regions. They belong to the directory, as savings plans do, and need rights there.
func (c *Cloud) ReservedInstances(ctx context.Context) ([]Reservation, error) {
	return inForce(ctx, c, "/providers/Microsoft.Capacity/reservations", c.reservedInstance)
}

func (c *Cloud) reservedInstance(r *reservedVM) (one Reservation, ok bool) {
	is := &r.Properties
	if is.Scope.Subscription == "" && len(is.Scopes) == 1 { // as in older answers, without these properties
		is.Scope.Subscription = is.Scopes[0]
	}
	if is.Kind != "VirtualMachines" || is.State != stateSucceeded || is.Quantity < 1 || !c.buysIn(r.Location) ||
		!c.forUs(is.ScopeType, is.Scope) {
		return one, false
	}
	one = Reservation{Region: strings.ToLower(r.Location), InstanceType: r.SKU.Name, Count: is.Quantity,
		Flexible: is.Flexible == "On"}
	var err error
	if one.Until, err = time.Parse(time.RFC3339, is.Until); err == nil && !one.Until.After(c.now()) {
		return one, false
	}
	return one, true
}

// Ratio is the amount of a flexible reservation that a machine uses, relative to other machines of its group.
type Ratio struct {
	Group string
	Ratio string // a decimal number, as Azure writes it
}

// Ratios returns the ratios in a region, by machine type ("Get Catalog").
func (c *Cloud) Ratios(ctx context.Context, region string) (map[string]Ratio, error) {
	type size struct {
		Name       string `json:"name"`
		Properties []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"skuProperties"`
	}
	all := map[string]Ratio{}
	err := list(ctx, c, "/subscriptions/"+c.cfg.Subscription+"/providers/Microsoft.Capacity/catalogs", url.Values{
		"reservedResourceType": {"VirtualMachines"}, "location": {region},
	}, func(z *size) {
		var one Ratio
		for _, p := range z.Properties {
			switch p.Name {
			case "ReservationsAutofitGroup", "InstanceSizeFlexibilityGroup":
				one.Group = p.Value
			case "ReservationsAutofitRatio", "InstanceSizeFlexibilityRatio":
				one.Ratio = p.Value
			}
		}
		if one.Group != "" && one.Ratio != "" {
			all[z.Name] = one
		}
	})
	return all, err
}

// Running is an on-demand machine in the subscription that belongs to others.
type Running struct{ Region, InstanceType string }

// Others returns the subscription's machines, except the deployment's, that are billed on demand and not on a
// capacity reservation. Machines on dedicated hosts are billed with their host and are not included.
func (c *Cloud) Others(ctx context.Context) (all []Running, err error) {
	views, err := c.views(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	list := c.machines.NewListAllPager(nil)
	for list.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := list.NextPage(call)
		cancel()
		if err != nil {
			return nil, Typed(err)
		}
		for _, vm := range page.Value {
			if vm == nil || vm.Properties == nil || vm.Properties.HardwareProfile == nil {
				continue
			}
			p := vm.Properties
			p.InstanceView = views[strings.ToLower(text(vm.ID))]
			state := power(vm)
			mine := tag(vm, tagDeployment) == c.cfg.Deployment && tag(vm, tagCluster) != ""
			cheap := p.Priority != nil && *p.Priority != armcompute.VirtualMachinePriorityTypesRegular
			reserved := p.CapacityReservation != nil && p.CapacityReservation.CapacityReservationGroup != nil
			if mine || cheap || reserved || p.Host != nil || p.HostGroup != nil || state == "deallocated" {
				continue
			}
			all = append(all, Running{Region: text(vm.Location), InstanceType: text(p.HardwareProfile.VMSize)})
		}
	}
	return all, nil
}
