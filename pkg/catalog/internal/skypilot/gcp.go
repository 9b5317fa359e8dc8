package skypilot

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
)

// googleCloud is the cloud whose files price accelerators in separate rows.
const googleCloud = "gcp"

// builtIn lists, for each accelerator and count, the machine types of accelerator-optimised series that have it built
// in. Google prices host and GPU separately but sells them only together.
//
// Source: Google Compute Engine, "GPU machine types" and "Accelerator-optimized machine family". It omits
// a3-edgegpu-8g and the -nolssd variants, because the data has no prices for their GPUs.
var builtIn = map[accel.Spec][]string{
	{Name: "A100", Count: 1}:      {"a2-highgpu-1g"},
	{Name: "A100", Count: 2}:      {"a2-highgpu-2g"},
	{Name: "A100", Count: 4}:      {"a2-highgpu-4g"},
	{Name: "A100", Count: 8}:      {"a2-highgpu-8g"},
	{Name: "A100", Count: 16}:     {"a2-megagpu-16g"},
	{Name: "A100-80GB", Count: 1}: {"a2-ultragpu-1g"},
	{Name: "A100-80GB", Count: 2}: {"a2-ultragpu-2g"},
	{Name: "A100-80GB", Count: 4}: {"a2-ultragpu-4g"},
	{Name: "A100-80GB", Count: 8}: {"a2-ultragpu-8g"},
	{Name: "L4", Count: 1}: {"g2-standard-4", "g2-standard-8", "g2-standard-12", "g2-standard-16",
		"g2-standard-32"},
	{Name: "L4", Count: 2}:        {"g2-standard-24"},
	{Name: "L4", Count: 4}:        {"g2-standard-48"},
	{Name: "L4", Count: 8}:        {"g2-standard-96"},
	{Name: "H100", Count: 1}:      {"a3-highgpu-1g"},
	{Name: "H100", Count: 2}:      {"a3-highgpu-2g"},
	{Name: "H100", Count: 4}:      {"a3-highgpu-4g"},
	{Name: "H100", Count: 8}:      {"a3-highgpu-8g"},
	{Name: "H100-MEGA", Count: 8}: {"a3-megagpu-8g"},
	{Name: "H200", Count: 8}:      {"a3-ultragpu-8g"},
	{Name: "B200", Count: 8}:      {"a4-highgpu-8g"},
}

// hostLimit is the size of the largest N1 machine for a number of GPUs.
type hostLimit struct{ vcpu, memoryGiB float64 }

// attachable are the GPUs that can be attached to N1 machines, with the largest host for each count. Source: Google
// Compute Engine, "GPU machine types", N1.
var attachable = map[accel.Spec]hostLimit{
	{Name: "T4", Count: 1}:   {48, 312},
	{Name: "T4", Count: 2}:   {48, 312},
	{Name: "T4", Count: 4}:   {96, 624},
	{Name: "P4", Count: 1}:   {24, 156},
	{Name: "P4", Count: 2}:   {48, 312},
	{Name: "P4", Count: 4}:   {96, 624},
	{Name: "V100", Count: 1}: {12, 78},
	{Name: "V100", Count: 2}: {24, 156},
	{Name: "V100", Count: 4}: {48, 312},
	{Name: "V100", Count: 8}: {96, 624},
	{Name: "P100", Count: 1}: {16, 104},
	{Name: "P100", Count: 2}: {32, 208},
	{Name: "P100", Count: 4}: {96, 624},
}

// limitFor returns the largest N1 host for these GPUs in a zone. Three zones have smaller hosts for four P100.
func limitFor(gpus accel.Spec, zone string) (hostLimit, bool) {
	if gpus == (accel.Spec{Name: "P100", Count: 4}) {
		switch zone {
		case "us-east1-c", "europe-west1-b", "europe-west1-d":
			return hostLimit{64, 208}, true
		}
	}
	limit, ok := attachable[gpus]
	return limit, ok
}

// composer joins Google's accelerators with the hosts of the same zone.
type composer struct {
	// hosts are the rows of machines that can carry an accelerator, by zone.
	hosts        map[string][]*row
	accelerators []*row
}

func newComposer() *composer { return &composer{hosts: make(map[string][]*row)} }

// keep keeps the rows that compose needs. It returns true if the row must not be offered alone: it is an accelerator,
// or a host that is not sold alone.
func (c *composer) keep(r *row) (handled bool) {
	switch {
	case r.instanceType == "":
		c.accelerators = append(c.accelerators, r)
		return true
	case strings.HasSuffix(r.instanceType, "-tpu"):
		// The host of a TPU slice cannot be bought alone; the price of the TPU includes it.
		return true
	case r.accelerator != "":
		return false
	case isAcceleratorSeries(r.instanceType):
		c.hosts[r.zone] = append(c.hosts[r.zone], r)
		return true
	case strings.HasPrefix(r.instanceType, "n1-"):
		c.hosts[r.zone] = append(c.hosts[r.zone], r)
		return false
	default:
		return false
	}
}

// isAcceleratorSeries reports whether a machine type belongs to a series with built-in GPUs: A2, A3, A4, G2 and their
// successors.
func isAcceleratorSeries(instanceType string) bool {
	series, _, _ := strings.Cut(instanceType, "-")
	switch series {
	case "a2", "a3", "a4", "a4x", "g2", "g4":
		return true
	}
	return false
}

// compose calls offer for each accelerator with each host in its zone that can carry it. An accelerator without such
// a host is not sold in that zone.
func (c *composer) compose(offer func(r *row, attached bool) error) error {
	for _, a := range c.accelerators {
		if tpu, ok := accel.ParseTPU(a.accelerator); ok {
			slice, ok := tpuSlice(a, tpu)
			if !ok {
				continue
			}
			if err := offer(slice, false); err != nil {
				return err
			}
			continue
		}
		gpus := accel.Spec{Name: a.accelerator, Count: a.count}
		for _, host := range c.hosts[a.zone] {
			carries, attached := canCarry(host, gpus)
			if !carries || !a.priced || !host.priced {
				continue
			}
			if err := offer(join(host, a), attached); err != nil {
				return err
			}
		}
	}
	return nil
}

// canCarry reports whether a host can have these GPUs, and whether they are attached to it (not built in).
func canCarry(host *row, gpus accel.Spec) (ok, attached bool) {
	for _, instanceType := range builtIn[gpus] {
		if host.instanceType == instanceType {
			return true, false
		}
	}
	if !strings.HasPrefix(host.instanceType, "n1-") {
		return false, false
	}
	limit, ok := limitFor(gpus, host.zone)
	return ok && host.vcpu <= limit.vcpu && host.memoryGiB <= limit.memoryGiB, true
}

// join returns a host with its GPUs. The result is sold as spot if both parts are. A spot price of zero of the host
// is valid if its on-demand price is zero too, because Google includes the price of some hosts (A4) in that of their
// GPUs.
func join(host, gpus *row) *row {
	joined := *host
	joined.line = gpus.line
	joined.accelerator, joined.count = gpus.accelerator, gpus.count
	joined.onDemand = host.onDemand + gpus.onDemand
	joined.spot = 0
	hostFree := host.onDemand == 0
	if gpus.spot > 0 && (host.spot > 0 || hostFree) {
		joined.spot = host.spot + gpus.spot
	}
	return &joined
}
