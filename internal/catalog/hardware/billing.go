package hardware

import (
	"math"
	"time"
)

// Billing is the time for which a cloud bills a machine: at least Minimum, then in steps of Increment.
type Billing struct{ Minimum, Increment time.Duration }

// BillingOf returns how a cloud bills machines. Sources:
//   - AWS bills Linux by the second, with a minimum of 60 s ("On-Demand Instances", "Billing"; spot the same).
//   - Google Cloud bills vCPUs and memory by the second after a minimum of one minute ("VM instance pricing",
//     "Billing model").
//   - Azure bills by the second, and since June 2025 also machines that stop within 300 s of their start; an answer on
//     Microsoft Learn (questions 2259765) reads that as a minimum of 300 s. It is the reading that costs more, so no
//     bill is above its plan.
//   - Lambda Cloud bills in increments of one minute ("Billing").
//
// Other clouds, such as a cluster, have neither minimum nor increment.
func BillingOf(cloud string) Billing {
	switch cloud {
	case "aws", "gcp":
		return Billing{Minimum: time.Minute, Increment: time.Second}
	case "azure":
		return Billing{Minimum: 5 * time.Minute, Increment: time.Second}
	case "lambda":
		return Billing{Minimum: time.Minute, Increment: time.Minute}
	}
	return Billing{}
}

// Billed returns the time that is billed for a machine that was held for some time.
func (b Billing) Billed(held time.Duration) time.Duration {
	if held <= 0 {
		return 0
	}
	held = max(held, b.Minimum)
	if b.Increment <= 0 {
		return held
	}
	steps := held / b.Increment
	if held%b.Increment > 0 {
		steps++
	}
	return steps * b.Increment
}

// BilledHours is [Billing.Billed] in hours.
func (b Billing) BilledHours(held float64) float64 {
	if !(held > 0) {
		return 0
	}
	held = math.Max(held, b.Minimum.Hours())
	if step := b.Increment.Hours(); step > 0 {
		return math.Ceil(held/step-1e-9) * step
	}
	return held
}
