package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// bootsDiffer is the factor between boots in earlier jobs and measured boots from which on the plan has a note.
const bootsDiffer = 1.25

// addBootNotes adds notes about planned machine types whose boots in earlier jobs of the same name took much longer,
// or much less time, than the measured ones.
func (b *builder) addBootNotes(plan *record.Plan) {
	for i := range plan.Offers {
		o := &plan.Offers[i].Offer
		seen, ok := b.in.Boots[planinput.BootKey(o.Cloud, o.InstanceType)]
		boot, known := hardware.BootOf(o.Cloud, plan.Offers[i].VCPU, o.AccelCount)
		if !ok || !known || o.Service != "" {
			continue
		}
		median := record.Duration(math.Exp(seen.Log))
		if by := median.Seconds() / boot.Typical().Seconds(); by < bootsDiffer && by > 1/bootsDiffer {
			continue
		}
		note := fmt.Sprintf("%s/%s booted in %s in earlier jobs of this name (boots: %d), and in %s where it was "+
			"measured; the plan expects %s", o.Cloud, o.InstanceType, shown(median), seen.Runs, shown(boot.Typical()),
			shown(time.Duration(o.BootSeconds*float64(time.Second))))
		if !slices.Contains(plan.Notes, note) {
			plan.Notes = append(plan.Notes, note)
		}
	}
}

func shown(d time.Duration) string { return dag.FormatDuration(d.Round(time.Second)) }
