package refresh

import (
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func (l Limits) Within(offers []catalog.Offer) ([]catalog.Offer, int) { return l.within(offers) }

// Merge returns the offers of one machine type in one zone of a region.
func Merge(region, name string, t types.InstanceTypeInfo, known map[string]catalog.Offer,
	onDemand map[string]float64) []catalog.Offer {
	return merge(region, sold{types: map[string]types.InstanceTypeInfo{name: t},
		zones: map[string][]string{name: {"use1-az1"}}}, known, onDemand, nil)
}

// Left returns what remains of an account's regional reserved instances, and the types of the machines that they do
// not pay for. The arguments list machine types, TYPE or TYPE*COUNT.
func Left(reserved, running, capacity []string) (left, rest string) {
	var bought []types.ReservedInstances
	each(reserved, func(kind string) {
		bought = append(bought, types.ReservedInstances{
			InstanceType: types.InstanceType(kind), InstanceCount: awssdk.Int32(1), State: types.ReservedInstanceStateActive,
			InstanceTenancy: shared, ProductDescription: linux,
		})
	})
	var others []instance
	each(running, func(kind string) { others = append(others, instance{kind: kind}) })
	var active []types.CapacityReservation
	each(capacity, func(kind string) {
		active = append(active, types.CapacityReservation{InstanceType: awssdk.String(kind), TotalInstanceCount: awssdk.Int32(1),
			CapacityReservationId: awssdk.String("cr")})
	})
	all, unpaid := tally(bought, "us-east-1", nil, payable(others, active))
	var has, kinds []string
	for _, one := range all {
		if !one.Has().IsZero() {
			has = append(has, one.Has().String())
		}
	}
	for _, one := range unpaid {
		kinds = append(kinds, one.kind)
	}
	return strings.Join(has, ", "), strings.Join(kinds, " ")
}

func each(kinds []string, do func(string)) {
	for _, k := range kinds {
		kind, times, _ := strings.Cut(k, "*")
		n, _ := strconv.Atoi(times)
		for range max(n, 1) {
			do(kind)
		}
	}
}
