package replay

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// meter accumulates measurements over time.
type meter struct {
	seconds, contended float64
	used               [3]float64
	fragment           float64
	errors             float64
	lost               float64   // GPU time lost by evicted pods, in thousandths of GPU-seconds
	held               []int64   // GPUs held now, by owner, in thousandths
	gpu                []float64 // held, integrated over time
	weights            []float64
}

func newMeter(p *replayer) meter {
	m := meter{held: make([]int64, len(p.owners)), gpu: make([]float64, len(p.owners)),
		weights: make([]float64, len(p.owners))}
	for i, name := range p.owners {
		m.weights[i] = float64(max(1, p.opt.Weights[name]))
	}
	return m
}

// add adds the current situation for a duration in seconds.
func (m *meter) add(p *replayer, seconds float64) {
	if seconds <= 0 {
		return
	}
	m.seconds += seconds
	var now [3]float64
	for r := range now {
		if p.total[r] > 0 {
			now[r] = float64(p.used[r]) / float64(p.total[r])
		}
		m.used[r] += now[r] * seconds
	}
	p.report.Peak = Shares{max(p.report.Peak.CPU, now[0]), max(p.report.Peak.Memory, now[1]),
		max(p.report.Peak.GPU, now[2])}
	f := p.fragmentation()
	m.fragment += f * seconds
	p.report.PeakFragmentation = max(p.report.PeakFragmentation, f)
	want := slices.Clone(m.held)
	waits := false
	for _, s := range p.active {
		if !s.running {
			want[s.queue] += int64(s.pod.GPUs) * s.pod.Share
			waits = waits || s.pod.GPUs > 0
		}
	}
	for q, x := range m.held {
		m.gpu[q] += float64(x) * seconds
		if p.opt.HalfLife > 0 && len(p.snap.Namespaces) > 0 {
			n := &p.snap.Namespaces[q]
			n.Usage = n.Usage.Advance(at(p.now+seconds), scheduler.Vector{2: x}, p.opt.HalfLife)
		}
	}
	if !waits {
		return
	}
	m.contended += seconds
	owed, sum := m.owed(want), 0.0
	for q, x := range m.held {
		sum += math.Abs(float64(x)-owed[q]) / float64(p.total[2])
	}
	m.errors += sum / float64(len(m.held)) * seconds
}

// owed divides the allocated GPUs between owners by weight, to each at most its demand: max-min fairness. It divides
// the allocated GPUs, not the capacity, so that idle GPUs that no pod could use do not count as a loss of any owner.
func (m *meter) owed(want []int64) []float64 {
	left := 0.0
	for _, x := range m.held {
		left += float64(x)
	}
	out := make([]float64, len(want))
	open := make([]int, 0, len(want))
	for q := range want {
		open = append(open, q)
	}
	for len(open) > 0 {
		sum, least := 0.0, math.Inf(1)
		for _, q := range open {
			sum += m.weights[q]
			least = min(least, (float64(want[q])-out[q])/m.weights[q])
		}
		step := min(least, left/sum)
		for _, q := range open {
			out[q] += step * m.weights[q]
		}
		if left -= step * sum; step < least {
			break
		}
		open = slices.DeleteFunc(open, func(q int) bool { return (float64(want[q])-out[q])/m.weights[q] <= 1e-9 })
	}
	return out
}

// fragmentation returns the fraction of all GPUs that is idle and unusable for a pod drawn at random from the trace.
func (p *replayer) fragmentation() float64 {
	if p.total[2] == 0 {
		return 0
	}
	sum := 0.0
	for i := range p.free {
		n := &p.free[i]
		if n.stale {
			n.fragment, n.stale = n.fragments(p.classes, len(p.pods)), false
		}
		sum += n.fragment
	}
	return sum / float64(p.total[2])
}

// fragments returns the node's idle GPUs, in thousandths, that a class can not use, averaged over classes weighted by
// their frequency.
func (n *nodeFree) fragments(classes []class, pods int) float64 {
	idle := int64(0)
	for _, x := range n.gpu {
		idle += x
	}
	if idle == 0 {
		return 0
	}
	sum := 0.0
	for _, c := range classes {
		unusable, fits := int64(0), 0
		for _, x := range n.gpu {
			if x >= c.spec.Share && c.spec.Devices > 0 {
				fits++
			} else {
				unusable += x
			}
		}
		if c.spec.Devices == 0 || fits < c.spec.Devices || n.cpu < c.spec.Request[0] || n.memory < c.spec.Request[1] ||
			len(c.models) > 0 && !slices.Contains(c.models, n.model) {
			unusable = idle
		}
		sum += float64(unusable) * float64(c.count) / float64(pods)
	}
	return sum
}

// finish completes the report.
func (p *replayer) finish() {
	r, m := p.report, &p.meter
	var waits []float64
	byQueue := make([][]float64, len(p.owners))
	for i := range p.pods {
		s := &p.pods[i]
		q := r.Queues[s.pod.owner()]
		q.Pods++
		if s.started >= 0 {
			waits = append(waits, s.started-s.arrival)
			byQueue[s.queue] = append(byQueue[s.queue], s.started-s.arrival)
			q.Placed++
		}
		r.Queues[s.pod.owner()] = q
	}
	r.Unplaced = r.Pods - r.Placed
	r.Wait, r.Hours = quantiles(waits), p.now/3600
	if m.seconds > 0 {
		r.Allocation = Shares{m.used[0] / m.seconds, m.used[1] / m.seconds, m.used[2] / m.seconds}
		r.Fragmentation = m.fragment / m.seconds
	}
	if m.contended > 0 {
		r.ShareError = m.errors / m.contended
	}
	if all := m.used[2] * float64(p.total[2]); all > 0 {
		r.Lost = m.lost / all
	}
	for i, name := range p.owners {
		q := r.Queues[name]
		q.Wait = quantiles(byQueue[i])
		if m.seconds > 0 && p.total[2] > 0 {
			q.GPU = m.gpu[i] / m.seconds / float64(p.total[2])
		}
		r.Queues[name] = q
	}
}

func quantiles(x []float64) (q Quantiles) {
	if len(x) == 0 {
		return q
	}
	slices.Sort(x)
	for _, v := range x {
		q.Mean += v / float64(len(x))
	}
	at := func(p float64) float64 { return x[min(len(x)-1, int(math.Ceil(p*float64(len(x))))-1)] }
	q.P50, q.P95, q.P99, q.Max = at(0.5), at(0.95), at(0.99), x[len(x)-1]
	return q
}
