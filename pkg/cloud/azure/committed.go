package azure

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// benefitsVersion is that of Microsoft.BillingBenefits and of Microsoft.Capacity, whose last that is no preview it is.
const benefitsVersion = "2022-11-01"

// mostBenefits bounds the pages of what a directory has bought.
const mostBenefits = 100

// SavingsPlan is a commitment to pay so much an hour for machines of any type, in any region.
type SavingsPlan struct {
	ID         string // the plan's own, without its order
	USDPerHour float64
	Years      int // that it is for, by which its rates are: 1 or 3
	Until      time.Time
	// Used is which share of it was used in the last day, of all that it is for; below 0 is not known.
	Used float64
}

// savingsPlan is one as "Savings Plan - List All" tells it.
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

// appliedScope is what a benefit is for, where that is no more than a subscription.
type appliedScope struct {
	Subscription  string `json:"subscriptionId"`
	ResourceGroup string `json:"resourceGroupId"`
}

// utilization is how much of a benefit was used, in per cent, by days.
type utilization struct {
	Aggregates []struct {
		Grain     float64 `json:"grain"`
		GrainUnit string  `json:"grainUnit"`
		Value     float64 `json:"value"`
		ValueUnit string  `json:"valueUnit"`
	} `json:"aggregates"`
}

// lastDay is which share was used in the last day; below 0 is not known.
func (u utilization) lastDay() float64 {
	for _, a := range u.Aggregates {
		if a.Grain == 1 && strings.EqualFold(a.GrainUnit, "days") && strings.EqualFold(a.ValueUnit, "percentage") {
			return a.Value / 100
		}
	}
	return -1
}

// forUs says whether a benefit is for machines of the deployment. One for a management group may be: which
// subscriptions are in it is not asked.
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

// SavingsPlans are those in force that are for machines of the deployment, as far as one may see them: they belong to
// the directory, not to the subscription, so that whoever has no right there sees none, or is refused.
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

// inForce are the benefits of a list that read takes for such as are of use.
func inForce[T, B any](ctx context.Context, c *Cloud, path string, read func(*T) (B, bool)) (all []B, err error) {
	err = list(ctx, c, path, url.Values{}, func(t *T) {
		if one, ok := read(t); ok {
			all = append(all, one)
		}
	})
	return all, err
}

// list tells each element of a list, of all its pages, that the SDK's clients at hand have no call for. Errors are
// typed.
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
			return fmt.Errorf("%s: the next page is at %.100q", path, page.Next)
		}
		path, query = u.Path, u.Query() // of the same host, whatever it says: the token goes there
	}
	return fmt.Errorf("%s: more than %d pages", path, mostBenefits)
}

// Reservation is a number of machines that the directory has paid for ahead: a price, which machines of their type
// have, or those of all sizes of its group where it is flexible.
type Reservation struct {
	Region, InstanceType string
	Count                int
	Flexible             bool
	Until                time.Time
}

// reservedVM is one as "Reservation - List All" tells it.
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

// ReservedInstances are the reservations of virtual machines in force that are for machines of the deployment, in its
// regions, as far as one may see them: they belong to the directory, as savings plans do.
func (c *Cloud) ReservedInstances(ctx context.Context) ([]Reservation, error) {
	return inForce(ctx, c, "/providers/Microsoft.Capacity/reservations", c.reservedInstance)
}

func (c *Cloud) reservedInstance(r *reservedVM) (one Reservation, ok bool) {
	is := &r.Properties
	if is.Scope.Subscription == "" && len(is.Scopes) == 1 { // as it was told before there were properties of it
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

// Ratio is how much of a reservation a machine takes that is flexible, beside others of its group.
type Ratio struct {
	Group string
	Ratio string // a decimal number, as Azure has it
}

// Ratios are those of a region, by machine type ("Get Catalog").
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

// Running is a machine of others in the subscription that is paid on demand.
type Running struct{ Region, InstanceType string }

// Others are all machines of the subscription but the deployment's that are billed on demand, and on no capacity
// reservation. Machines of dedicated hosts are billed with their host.
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
