package planner

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// The power of a machine by the Cloud Carbon Footprint methodology: the clouds' mean of idle and full load per vCPU,
// the power of memory, and the power usage effectiveness of a large data centre. An accelerator takes 0.7 of its
// rated power on average under load.
const (
	wattsPerVCPU       = 2.1
	wattsPerMemoryGiB  = 0.392
	usageEffectiveness = 1.15
	acceleratorLoad    = 0.7
	otherAccelerator   = 250 // watts, for accelerators with unknown rating
)

// acceleratorWatts returns the rated power of one accelerator, in watts. The table's longest prefix of its canonical
// name decides.
func acceleratorWatts(name string) float64 {
	best, watts := -1, float64(otherAccelerator)
	for _, a := range []struct {
		name  string
		watts float64
	}{
		{"T4", 70}, {"P4", 75}, {"L4", 72}, {"P100", 250}, {"V100", 300}, {"A10", 150}, {"A10G", 300}, {"A100", 400},
		{"L40", 300}, {"L40S", 350}, {"H100", 700}, {"H200", 700}, {"B200", 1000}, {"K80", 300}, {"M60", 300},
		{"RTX6000", 260}, {"MI300X", 750}, {"MI25", 300}, {"Inferentia", 75}, {"Trainium", 230}, {"tpu", 200},
	} {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(a.name)) && len(a.name) > best {
			best, watts = len(a.name), a.watts
		}
	}
	return watts
}

// kilowatts returns the power that one machine of an offer takes from the grid, in kW.
func (m *match) kilowatts() float64 {
	watts := wattsPerVCPU*m.VCPU + wattsPerMemoryGiB*m.MemoryGiB
	if m.Accelerator != "" {
		watts += acceleratorLoad * acceleratorWatts(m.Accelerator) * m.AcceleratorCount
	}
	return usageEffectiveness * watts / 1000
}

func (b *builder) countsCarbon() bool { return b.p.opt.LeastCarbon || b.p.opt.CarbonCapKg != nil }

// Emissions returns the emissions of a plan's machines in kg CO2eq. It returns 0 if the emissions of some grid are
// unknown.
func (p *Planner) Emissions(in planinput.Input, plan *record.Plan) float64 {
	if len(plan.Fleets) > 0 {
		return 0
	}
	in = withoutWorkers(in)
	b, err := p.build(in, p.reservations(in), nil)
	if err != nil || b.message != "" {
		return 0
	}
	total := 0.0
	for _, row := range b.rows {
		if row.options == nil {
			continue // an input, or a running task
		}
		kg := 0.0
		if c := plan.Of(row.task); c != nil {
			for _, o := range row.options {
				if o.is(c) {
					kg = o.KgCO2
				}
			}
		}
		if kg == 0 {
			return 0
		}
		total += kg
	}
	return total
}
