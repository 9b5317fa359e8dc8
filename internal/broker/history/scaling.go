package history

import (
	"maps"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// scaled returns the run times of a task on one machine, by kind of machine, and the serial share of its work. It
// calculates both from runs on several numbers of machines. name returns the name under which the runs on a number of
// machines are stored.
func scaled(t *dag.Task, h apitypes.History,
	name func(nodes int) string) (one map[string]apitypes.RunTimes, serial *float64) {
	means := map[int]apitypes.RunTimes{}
	for n := t.Nodes; n <= t.MostNodes(); n++ {
		if of := h.Tasks[name(n)]; len(of) > 0 {
			means[n] = pooled(of)
		}
	}
	if len(means) == 0 {
		return nil, nil
	}
	e := dag.TimeEstimate{Serial: serialShare(means)}
	one = map[string]apitypes.RunTimes{}
	for _, n := range slices.Sorted(maps.Keys(means)) {
		of := h.Tasks[name(n)]
		for _, machine := range slices.Sorted(maps.Keys(of)) {
			times := of[machine]
			times.Log -= math.Log(e.Scale(n))
			one[machine] = merged(one[machine], times)
		}
	}
	return one, e.Serial
}

// merged combines two distributions of times on the same kind of machine.
func merged(x, y apitypes.RunTimes) apitypes.RunTimes {
	if x.Runs == 0 {
		return y
	}
	speed, at := y.Speed, max(x.At, y.At)
	x.Speed, y.Speed = 1, 1
	all := pooled(map[string]apitypes.RunTimes{"x": x, "y": y})
	all.Speed, all.At = speed, at
	return all
}

// serialShare fits Amdahl's law, a + b/n, to the mean times on n machines by least squares of the relative errors,
// and returns a/(a+b). a and b are at least 0. With runs on only one number of machines, the share is 0.
func serialShare(means map[int]apitypes.RunTimes) *float64 {
	var xx, xy, yy, x, y float64 // sums of 1/T and 1/(nT), weighted by runs
	for _, n := range slices.Sorted(maps.Keys(means)) {
		w, inverse := float64(min(means[n].Runs, maxWeight)), math.Exp(-means[n].Log)
		p, q := inverse, inverse/float64(n)
		xx, xy, yy, x, y = xx+w*p*p, xy+w*p*q, yy+w*q*q, x+w*p, y+w*q
	}
	share, det := 0.0, xx*yy-xy*xy
	if len(means) > 1 && det > 0 {
		a, b := max((x*yy-y*xy)/det, 0), max((y*xx-x*xy)/det, 0)
		if a+b > 0 {
			share = a / (a + b)
		}
	}
	return &share
}
