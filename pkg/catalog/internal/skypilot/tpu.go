package skypilot

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// tpuHost is the virtual machine that drives a part of a TPU slice.
type tpuHost struct {
	vcpu, memoryGiB float64
	// size is how much of a slice one host drives, in the unit of its type's name:
	// cores for v2, v3, v4 and v5p, chips for v5e and v6e.
	size int
}

// tpuHosts are the hosts of slices of more than one host, by generation; of
// smaller slices see tpuSubHosts. v2 to v5e are the sizes of Google's
// n1-356-96-tpu, n2d-407-240-tpu and n2d-*-v5lite-tpu rows, which the data lists
// as machine types nobody can buy; v5p and v6e are from Google's "TPU machine
// types" (ct5p-hightpu-4t, ct6e-standard-4t).
var tpuHosts = map[string]tpuHost{
	"v2":        {vcpu: 96, memoryGiB: 340, size: 8},
	"v3":        {vcpu: 96, memoryGiB: 340, size: 8},
	"v4":        {vcpu: 240, memoryGiB: 407, size: 8},
	"v5litepod": {vcpu: 112, memoryGiB: 192, size: 4},
	"v5p":       {vcpu: 208, memoryGiB: 448, size: 8},
	"v6e":       {vcpu: 180, memoryGiB: 720, size: 4},
}

// tpuSubHosts are the slices that have a host of their own size.
var tpuSubHosts = map[accel.TPU]tpuHost{
	{Generation: "v5litepod", Size: 1}: {vcpu: 24, memoryGiB: 48, size: 1},
	{Generation: "v5litepod", Size: 8}: {vcpu: 224, memoryGiB: 384, size: 8},
	{Generation: "v6e", Size: 1}:       {vcpu: 44, memoryGiB: 176, size: 1},
	{Generation: "v6e", Size: 8}:       {vcpu: 180, memoryGiB: 1440, size: 8},
}

// v6ePlaceholder is what the upstream collector writes for a v6e price that
// Google does not publish, so that such places sort last. It is no price.
const v6ePlaceholder table.NanoUSD = 700e9

// tpuSlice turns a TPU's row into an offer of the slice. A slice is created
// whole, by its type's name, and the price of its hosts is in its own (Cloud TPU
// pricing; SkyPilot's catalogue treats it alike). It reports false for a slice
// without a published price or of a generation not known here.
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
