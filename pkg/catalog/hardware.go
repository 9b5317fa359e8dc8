package catalog

import (
	"sync/atomic"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

// Hardware has the facts about an offer's machine that decide how long a task takes on it, and which time is billed.
// Times are in seconds.
type Hardware struct {
	// Family is the machine type without its size, and CPU its processor as package hardware names them; CPU is empty
	// if it is unknown.
	Family string `json:"family,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	// Speed is the throughput of one vCPU while all are busy, relative to a vCPU of m6i.xlarge; 0 if nothing is known.
	// SlowSpeed is the slow side of the estimate, for deadlines.
	Speed     float64 `json:"speed,omitempty"`
	SlowSpeed float64 `json:"slowSpeed,omitempty"`
	// Burstable means that the vCPUs may be busy only for a part of the time. Speed is then that of the baseline.
	Burstable bool `json:"burstable,omitempty"`
	// Threads is the number of vCPUs that the machine really has, if it was measured and is below VCPU.
	Threads float64 `json:"threads,omitempty"`
	// BootSeconds is the median time from the request of the machine to the first line of its start script, and
	// SlowBootSeconds that within which 95 % of the machines have booted; 0 if unknown.
	BootSeconds     float64 `json:"bootSeconds,omitempty"`
	SlowBootSeconds float64 `json:"slowBootSeconds,omitempty"`
	// BillingMinimumSeconds is the least time that is billed, and BillingIncrementSeconds the step above it.
	BillingMinimumSeconds   float64 `json:"billingMinimumSeconds,omitempty"`
	BillingIncrementSeconds float64 `json:"billingIncrementSeconds,omitempty"`
}

// Work is the work that the machine does in an hour with all vCPUs busy, in hours of one vCPU at speed 1.
func (o *Offer) Work() float64 {
	vcpu := o.VCPU
	if o.Threads > 0 {
		vcpu = min(vcpu, o.Threads)
	}
	if o.Speed > 0 {
		return vcpu * o.Speed
	}
	return vcpu
}

// speeds are Speed and SlowSpeed of a machine, 1 if they are unknown.
type speeds struct{ typical, slow float64 }

// speedsOf returns the speeds of all machines.
func (c *Catalog) speedsOf() []speeds {
	all := make([]speeds, len(c.cols.Machines))
	for i := range all {
		if h := c.hardwareOf(uint16(i)); h.Speed > 0 { //nolint:gosec // bounded by maxMachines
			all[i] = speeds{h.Speed, h.SlowSpeed}
		} else {
			all[i] = speeds{1, 1}
		}
	}
	return all
}

// hardwareOf returns the facts about a machine type of a cloud.
func hardwareOf(cloud, instanceType string, vcpu, accelerators float64) Hardware {
	h := Hardware{Family: hardware.Family(cloud, instanceType)}
	bill := hardware.BillingOf(cloud)
	h.BillingMinimumSeconds, h.BillingIncrementSeconds = bill.Minimum.Seconds(), bill.Increment.Seconds()
	if boot, ok := hardware.BootOf(cloud, vcpu, accelerators); ok {
		h.BootSeconds, h.SlowBootSeconds = boot.Typical().Seconds(), boot.Slow().Seconds()
	}
	speed := hardware.Default().Speed(cloud, instanceType, vcpu)
	if speed.CPU == "" {
		return h
	}
	h.CPU = speed.CPU
	h.Speed, h.SlowSpeed, h.Burstable = speed.Typical, speed.Slow, speed.Baseline < 1
	if speed.Threads > 0 && speed.Threads < vcpu {
		h.Threads = speed.Threads
	}
	return h
}

// hardwareOf returns the facts about machine i of the catalogue. They are looked up at the first call.
func (c *Catalog) hardwareOf(i uint16) *Hardware {
	if h := c.hardware[i].Load(); h != nil {
		return h
	}
	m := &c.cols.Machines[i]
	h := hardwareOf(m.Cloud, m.InstanceType, m.Vcpu, m.Count)
	c.hardware[i].Store(&h)
	return &h
}

// lazyHardware has the facts about each machine of a catalogue, or nil before the first call for it.
type lazyHardware []atomic.Pointer[Hardware]
