package planner

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// What a machine draws, after the Cloud Carbon Footprint methodology: the mean of the clouds' idle and full load for a
// vCPU, what memory draws, and the power usage effectiveness of a large data centre. Accelerators draw what their
// makers rate them at, 0.7 of it on average under load.
const (
	wattsPerVCPU       = 2.1
	wattsPerMemoryGiB  = 0.392
	usageEffectiveness = 1.15
	acceleratorLoad    = 0.7
	otherAccelerator   = 250 // watts, of one whose rating we do not know
)

// acceleratorWatts is the rated power of one accelerator, by the start of its canonical name; the longest start counts.
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

// kilowatts is what one machine of an offer draws from the grid.
func (m *match) kilowatts() float64 {
	watts := wattsPerVCPU*m.VCPU + wattsPerMemoryGiB*m.MemoryGiB
	if m.Accelerator != "" {
		watts += acceleratorLoad * acceleratorWatts(m.Accelerator) * m.AcceleratorCount
	}
	return usageEffectiveness * watts / 1000
}

func (b *builder) countsCarbon() bool { return b.p.opt.LeastCarbon || b.p.opt.CarbonCapKg != nil }

// Emissions is what the machines of a plan for a job emit, kg CO2eq, 0 where some grid is not known.
func (p *Planner) Emissions(in record.PlanInput, plan *record.Plan) float64 {
	b, err := p.build(in, p.reservations(in))
	if err != nil || b.message != "" {
		return 0
	}
	total := 0.0
	for _, row := range b.rows {
		if row.options == nil {
			continue // an input, or what runs already
		}
		kg := 0.0
		if c := plan.Of(row.task); c != nil {
			for _, o := range row.options {
				if o.ID == c.ID {
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
