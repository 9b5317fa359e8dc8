package planner

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Offers returns the machines that fit the resources of a task, for estimators of its run time (paper, section
// Application API). For each key that a time can have, it returns the cheapest offer. The result is sorted by price.
// The times of the task do not matter. Managed services are excluded, and so are machines that cannot be a key of a
// time.
func (p *Planner) Offers(in planinput.Input, task int) ([]apitypes.FittingOffer, error) {
	b, err := p.prepare(in, nil)
	if err != nil {
		return nil, err
	}
	t := in.Spec.Tasks[task]
	t.Time = dag.TimeEstimate{}
	best := map[string]*catalog.Match{}
	f := finder{b: b}
	for _, r := range t.Resources {
		q := b.queries(&t, r)[0]
		f.bursts = r.Burstable || q.InstanceType+q.Family != ""
		q.CheapestPer, q.Faster, q.Keep = catalog.PerOffer, false, f.keep
		err := b.catalog.Visit(q, func(m *catalog.Match) bool {
			key := timeKey(m)
			if has := best[key]; key != "" && (has == nil || cheaperMatch(m, has)) {
				kept := *m
				best[key] = &kept
			}
			return true
		})
		if unknown := (*accel.UnknownError)(nil); err != nil && !errors.As(err, &unknown) {
			return nil, err
		}
		if t.Ordered && len(best) > 0 {
			break
		}
	}
	out := make([]apitypes.FittingOffer, 0, len(best))
	for _, key := range slices.Sorted(maps.Keys(best)) {
		out = append(out, fitting(key, best[key]))
	}
	slices.SortFunc(out, func(x, y apitypes.FittingOffer) int {
		return cmp.Or(cmp.Compare(x.USDPerHour, y.USDPerHour), strings.Compare(x.ID, y.ID))
	})
	return out, nil
}

// timeKey returns the key of `time` that matches a machine: its type, or its accelerators if the cloud attaches them
// to machines of any type. It returns "" if the name of the type cannot be a key.
func timeKey(m *catalog.Match) string {
	if key, err := dag.TimeKey(m.InstanceType); err == nil && key == m.InstanceType && !m.Attached {
		return key
	}
	if m.Accelerator == "" {
		return ""
	}
	return dag.AcceleratorKey(m.Accelerator, m.AcceleratorCount)
}

func fitting(key string, m *catalog.Match) apitypes.FittingOffer {
	return apitypes.FittingOffer{
		ID: m.ID(), TimeKey: key, Cloud: m.Cloud, Region: m.Region, Zone: m.Zone, InstanceType: m.InstanceType,
		VCPUs: m.VCPU, MemoryGiB: m.MemoryGiB, Accelerator: m.Accelerator, AcceleratorCount: m.AcceleratorCount,
		TFLOPS: m.AcceleratorCount * accel.TFLOPS(m.Accelerator), Arch: string(m.Arch), Family: m.Family, CPU: m.CPU,
		Speed: cmp.Or(m.Speed, 1), Market: m.Market.String(), USDPerHour: m.USDPerHour,
	}
}
