package skypilot

import (
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// tpuHost is a virtual machine that drives a part of a TPU slice.
type tpuHost struct {
	vcpu, memoryGiB float64
	// size is the part of a slice that one host drives, in the unit of the slice's name: cores for v2, v3, v4 and
	// v5p, chips for v5e and v6e.
	size int
}

// tpuHosts are the hosts of slices with several hosts, by generation; for single-host slices see tpuSubHosts. v2 to
// v5e are the sizes of Google's n1-356-96-tpu, n2d-407-240-tpu and n2d-*-v5lite-tpu rows, which the data lists as
// machine types although they are not sold; v5p and v6e are from Google's "TPU machine types" (ct5p-hightpu-4t,
// ct6e-standard-4t).
var tpuHosts = map[string]tpuHost{
	"v2":        {vcpu: 96, memoryGiB: 340, size: 8},
	"v3":        {vcpu: 96, memoryGiB: 340, size: 8},
	"v4":        {vcpu: 240, memoryGiB: 407, size: 8},
	"v5litepod": {vcpu: 112, memoryGiB: 192, size: 4},
	"v5p":       {vcpu: 208, memoryGiB: 448, size: 8},
	"v6e":       {vcpu: 180, memoryGiB: 720, size: 4},
}

// tpuSubHosts are the slices with a host of a special size.
var tpuSubHosts = map[accel.TPU]tpuHost{
	{Generation: "v5litepod", Size: 1}: {vcpu: 24, memoryGiB: 48, size: 1},
	{Generation: "v5litepod", Size: 8}: {vcpu: 224, memoryGiB: 384, size: 8},
	{Generation: "v6e", Size: 1}:       {vcpu: 44, memoryGiB: 176, size: 1},
	{Generation: "v6e", Size: 8}:       {vcpu: 180, memoryGiB: 1440, size: 8},
}

// v6ePlaceholder is the value that the upstream collector writes for a v6e price that Google does not publish, so
// that such places sort last. It is not a price.
const v6ePlaceholder table.NanoUSD = 700e9

// tpuSlice makes an offer of the slice from a TPU's row. A slice is created as a whole, by the name of its type, and
// its price includes its hosts (Cloud TPU pricing; SkyPilot's catalogue does the same). It returns false for a slice
// without a published price or of an unknown generation.
func tpuSlice(r *row, tpu accel.TPU) (*row, bool) {
	host, ok := tpuSubHosts[tpu]
	if !ok {
		host, ok = tpuHosts[tpu.Generation]
	}
	if !ok || !r.priced {
		return nil, false
	}
	slice := *r
	if tpu.Generation == "v6e" {
		if r.onDemand == v6ePlaceholder {
			return nil, false
		}
		if r.spot == v6ePlaceholder {
			slice.spot = 0
		}
	}
	hosts := float64((tpu.Size + host.size - 1) / host.size)
	slice.instanceType = tpu.String()
	slice.vcpu = hosts * host.vcpu
	slice.memoryGiB = hosts * host.memoryGiB
	slice.arm, slice.archGiven = false, true
	return &slice, true
}
