package clouds

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestReservedLine(t *testing.T) {
	share := 0.254
	units := func(n int64) apitypes.Amount { return apitypes.Amount{CentiUnits: 100 * n} }
	for want, k := range map[string]driver.Reserved{
		"reserved: 4 of m5.large in us-east-1 (settings, x) at 0.2500 additional USD per hour, used first": {
			ID: "x", Where: "us-east-1", InstanceType: "m5.large", Count: 4, USDPerHour: 0.25, By: "settings"},
		"reserved: 16 normalised units for m5 machines in us-east-1 (reserved instances, ri), of which others use 4 normalised units at 0.00 additional USD per hour, used first": {
			ID: "ri", Where: "us-east-1", What: "m5 machines", By: "reserved instances", Has: units(12), Total: units(16)},
		"reserved: 3 machines for m5.large in us-east-1 (capacity reservation, cr) at 0.00 additional USD per hour, used first": {
			ID: "cr", Where: "us-east-1", InstanceType: "m5.large", By: "capacity reservation",
			Has: catalog.Machines(3), Total: catalog.Machines(3)},
		"reserved: 1 machine for m5.large in us-east-1 (capacity reservation, cr), all used by others": {
			ID: "cr", Where: "us-east-1", InstanceType: "m5.large", By: "capacity reservation",
			Total: catalog.Machines(1)},
		"reserved: 1 USD an hour for machines of any type in all regions (savings plan, sp), of which 25 % were used in the last day; used first": {
			ID: "sp", Where: "all regions", What: "machines of any type", By: "savings plan",
			Total: catalog.SupplyUSD(1), UsedLastDay: &share},
	} {
		if got := reservedLine(k); got != want {
			t.Errorf("%s\nnot\n%s", got, want)
		}
	}
}
