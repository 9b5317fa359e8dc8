package refresh

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// inflexible are prefixes of families whose reserved instances pay only for their own size. AWS names some
// generations of each family. Later generations count as inflexible, too, until they are known. This is the safe
// assumption, because plans then count on less.
var inflexible = []string{"g4", "g5", "g6", "g7", "gr", "hpc", "inf", "p5", "p6", "trn", "u-", "u7"}

// units returns the amount of flexible reserved instances that a machine uses, in AWS's normalised units: a small
// machine uses 1. Such instances pay for all sizes of a family. ok is false for types without such units.
//
// Source: EC2 user guide, "Instance size flexibility" (normalisation factors, and types that are not flexible).
func units(kind string) (family string, takes apitypes.Amount, ok bool) {
	family, size, ok := strings.Cut(kind, ".")
	if !ok || slices.ContainsFunc(inflexible, func(begin string) bool { return strings.HasPrefix(family, begin) }) {
		return "", takes, false
	}
	centi := map[string]int64{"nano": 25, "micro": 50, "small": 100, "medium": 200, "large": 400, "xlarge": 800}[size]
	if times, many := strings.CutSuffix(size, "xlarge"); many && centi == 0 {
		n, err := strconv.ParseInt(times, 10, 32)
		if err != nil || n < 2 {
			return "", takes, false
		}
		centi = 800 * n
	}
	return family, apitypes.Amount{CentiUnits: centi}, centi > 0 // AWS does not document the size of bare metal
}

// payable returns the users of capacity for which reserved instances and plans may pay, without this deployment's
// machines: the on-demand machines of others outside reservations, and all capacity reservations, used or not.
func payable(running []instance, active []types.CapacityReservation) (all []instance) {
	for _, i := range running {
		if !i.ours && !i.spot && i.reservation == "" {
			all = append(all, i)
		}
	}
	for _, r := range active {
		one := instance{kind: awssdk.ToString(r.InstanceType), reservation: awssdk.ToString(r.CapacityReservationId)}
		all = append(all, slices.Repeat([]instance{one}, max(int(awssdk.ToInt32(r.TotalInstanceCount)), 0))...)
	}
	return all
}

// bought is the scope of a reserved instance: a machine type in a zone, a type in the region, or a family.
type bought struct{ what, zone string }

// reservedInstances adds up the active reserved instances and deducts what the users, that is other machines and
// capacity reservations, take of them. Zonal ones are used first; they do not pay for capacity reservations. Regional
// ones follow. It returns in rest the users that are paid for only in part or not at all; a part that pays for such a
// user counts as used.
//
// Source: EC2 user guide, "How Reserved Instance discounts are applied".
func reservedInstances(ctx context.Context, client *ec2.Client, region string, zones map[string]string,
	users []instance) (all []catalog.Reserved, rest []instance, err error) {
	out, err := client.DescribeReservedInstances(ctx, &ec2.DescribeReservedInstancesInput{
		Filters: []types.Filter{{Name: awssdk.String("state"), Values: []string{"active"}}},
	})
	if err != nil {
		return nil, nil, err
	}
	all, rest = tally(out.ReservedInstances, region, zones, users)
	return all, rest, nil
}

func tally(active []types.ReservedInstances, region string, zones map[string]string,
	users []instance) (all []catalog.Reserved, rest []instance) {
	found, left := map[bought]*catalog.Reserved{}, map[bought]apitypes.Amount{}
	var order []bought
	for _, r := range active {
		if r.State != types.ReservedInstanceStateActive || r.InstanceTenancy != shared ||
			!strings.HasPrefix(string(r.ProductDescription), linux) {
			continue
		}
		kind := string(r.InstanceType)
		at, takes := bought{kind, awssdk.ToString(r.AvailabilityZone)}, catalog.Machines(1)
		if family, n, ok := units(kind); ok && at.zone == "" {
			at, takes = bought{family, ""}, n
		}
		one := found[at]
		if one == nil {
			one = &catalog.Reserved{Cloud: aws.Name, Region: region, Zone: zones[at.zone], By: byReservedInstances,
				ID: "ri-" + at.what + "-" + cmp.Or(zones[at.zone], region)}
			if takes.CentiUnits == 0 {
				one.InstanceType = kind
			} else {
				one.Commitment = &catalog.Commitment{What: at.what + " machines"}
			}
			found[at] = one
			order = append(order, at)
		}
		has := takes.Times(int(awssdk.ToInt32(r.InstanceCount)))
		left[at], one.Total = left[at].Plus(has), one.Total.Plus(has)
		if end := awssdk.ToTime(r.End); one.Until.IsZero() || end.Before(one.Until) {
			one.Until = end
		}
	}
	for _, u := range users {
		if !pay(left, u) {
			rest = append(rest, u)
		}
	}
	for _, at := range order {
		one := found[at]
		if one.Commitment != nil {
			one.Commitment.Has = left[at]
		} else {
			one.Count = int(left[at].Machines)
		}
		all = append(all, *one)
	}
	return all, rest
}

// byReservedInstances is the source given for such capacity.
const byReservedInstances = "reserved instances"

// pay deducts the amount that a machine uses, and reports whether the machine is paid for in full.
func pay(left map[bought]apitypes.Amount, u instance) bool {
	ways := []bought{{u.kind, u.zone}, {u.kind, ""}}
	if u.reservation != "" {
		ways = ways[1:]
	}
	for _, at := range ways {
		if left[at].Machines > 0 {
			left[at] = left[at].Minus(catalog.Machines(1))
			return true
		}
	}
	family, takes, ok := units(u.kind)
	at := bought{family, ""}
	if !ok || left[at].CentiUnits == 0 {
		return false
	}
	full := takes.Within(left[at])
	left[at] = apitypes.Amount{CentiUnits: max(left[at].CentiUnits-takes.CentiUnits, 0)}
	return full
}

// covering sets, for each commitment to a family, the amount that each type of the family uses. It knows the types
// that the catalogue has in the region.
func covering(paid []catalog.Reserved, region string, known *catalog.Catalog) (all []catalog.Reserved) {
	families := map[string]map[string]apitypes.Amount{}
	for _, p := range paid {
		if p.Commitment != nil {
			family, _, _ := strings.Cut(p.Commitment.What, " ")
			families[family] = map[string]apitypes.Amount{}
		}
	}
	if len(families) > 0 {
		for o := range known.All() {
			family, takes, ok := units(o.InstanceType)
			if ok && o.Cloud == aws.Name && o.Region == region && families[family] != nil {
				families[family][region+"/"+o.InstanceType] = takes
			}
		}
	}
	for _, p := range paid {
		if p.Commitment != nil {
			family, _, _ := strings.Cut(p.Commitment.What, " ")
			p.Commitment.Takes = families[family]
		}
		all = append(all, p)
	}
	return all
}
