package azure

import (
	"context"
	"math/big"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// byReservedInstances is the source given for such capacity.
const byReservedInstances = "reserved instances"

// place is the scope of reservations: a group of machine types in a region, or a single type.
type place struct{ region, what string }

// group is a group of machine types that share reservations, with the amount that one machine of each type uses.
type group struct {
	name  string
	takes map[string]apitypes.Amount // by type
}

// reservedInstances adds up the reservations of virtual machines and deducts what the users (REGION/TYPE) take of
// them: on-demand machines of others, and all capacity reservations. It returns in rest the users that are paid for
// only in part or not at all; a part that pays for such a user counts as used.
//
// Source: Azure documentation, "Virtual machine size flexibility with Reserved VM Instances" and "How reservation
// discounts apply".
func (r *Refresher) reservedInstances(ctx context.Context, users []string) (all []catalog.Reserved, rest []string,
	err error) {
	bought, err := r.Cloud.ReservedInstances(ctx)
	if err != nil || len(bought) == 0 {
		return nil, users, err
	}
	groups := map[string]map[string]*group{} // by region and type
	found := map[place]*catalog.Reserved{}
	for _, b := range bought {
		if b.Flexible && groups[b.Region] == nil {
			ratios, err := r.Cloud.Ratios(ctx, b.Region)
			if err != nil {
				return nil, nil, err
			}
			groups[b.Region] = grouped(ratios)
		}
		add(found, b, groups[b.Region][b.InstanceType])
	}
	for _, u := range users {
		region, kind, _ := strings.Cut(u, "/")
		if !pay(found, region, kind, groups[region][kind]) {
			rest = append(rest, u)
		}
	}
	for _, one := range found {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b catalog.Reserved) int { return strings.Compare(a.ID, b.ID) })
	return all, rest, nil
}

// add adds a reservation. It counts in units of its group if it is flexible and the group is known, and otherwise in
// machines.
func add(found map[place]*catalog.Reserved, b Reservation, g *group) {
	at := place{b.Region, b.InstanceType}
	if b.Flexible && g != nil {
		at.what = g.name
	}
	one := found[at]
	if one == nil {
		one = &catalog.Reserved{Cloud: Name, Region: b.Region, Until: b.Until, By: byReservedInstances,
			ID: "ri-" + strings.Join(strings.Fields(at.what), "-") + "-" + b.Region}
		if at.what == b.InstanceType {
			one.InstanceType = b.InstanceType
		} else {
			one.Commitment = &catalog.Commitment{What: at.what + " machines", Takes: map[string]apitypes.Amount{}}
			for kind, takes := range g.takes {
				one.Commitment.Takes[b.Region+"/"+kind] = takes
			}
		}
		found[at] = one
	}
	if !b.Until.IsZero() && (one.Until.IsZero() || b.Until.Before(one.Until)) {
		one.Until = b.Until
	}
	if one.Commitment == nil {
		one.Count += b.Count
		one.Total = catalog.Machines(one.Count)
		return
	}
	one.Total = one.Total.Plus(g.takes[b.InstanceType].Times(b.Count))
	one.Commitment.Has = one.Total
}

// pay deducts the amount that another user's machine uses, and reports whether the machine is paid for in full.
func pay(found map[place]*catalog.Reserved, region, kind string, g *group) bool {
	if one := found[place{region, kind}]; one != nil && one.Count > 0 {
		one.Count--
		return true
	}
	if g == nil {
		return false
	}
	one := found[place{region, g.name}]
	if one == nil || one.Commitment.Has.IsZero() {
		return false
	}
	has, takes := one.Commitment.Has, g.takes[kind]
	one.Commitment.Has = apitypes.Amount{CentiUnits: max(has.CentiUnits-takes.CentiUnits, 0)}
	return takes.Within(has)
}

// mostDigits is the maximum number of decimal places of a ratio.
const mostDigits = 6

// grouped returns the groups of ratios, by machine type. If a ratio in a group has more than two decimal places, the
// units of the whole group are smaller accordingly, so that nothing is rounded. A group with an unreadable ratio is
// left out.
func grouped(ratios map[string]Ratio) map[string]*group {
	digits, bad := map[string]int{}, map[string]bool{}
	for _, r := range ratios {
		_, fraction, _ := strings.Cut(r.Ratio, ".")
		digits[r.Group] = max(digits[r.Group], 2, len(fraction))
		bad[r.Group] = bad[r.Group] || digits[r.Group] > mostDigits
	}
	byName, byType := map[string]*group{}, map[string]*group{}
	for kind, r := range ratios {
		if byName[r.Group] == nil {
			byName[r.Group] = &group{r.Group, map[string]apitypes.Amount{}}
		}
		x, ok := new(big.Rat).SetString(r.Ratio)
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(min(digits[r.Group], mostDigits))), nil)
		if ok {
			x.Mul(x, new(big.Rat).SetInt(scale))
		}
		takes := apitypes.Amount{}
		if ok && x.IsInt() && x.Num().IsInt64() {
			takes.CentiUnits = x.Num().Int64()
		}
		bad[r.Group] = bad[r.Group] || takes.Check() != nil
		byName[r.Group].takes[kind], byType[kind] = takes, byName[r.Group]
	}
	for kind, g := range byType {
		if bad[g.name] {
			delete(byType, kind)
		}
	}
	return byType
}
