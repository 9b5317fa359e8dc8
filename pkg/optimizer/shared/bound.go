package shared

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// limits are values that no valid plan is below.
type limits struct{ usd, hours float64 }

// slack makes up for rounding errors in a bound.
const slack = 1e-9

// bound returns limits on all valid plans, and the reason if there is no valid plan.
//
// Hours: a task ends no earlier than its parents' earliest ends, or the boot of some machine that fits, plus its time
// on that machine.
//
// USD: an instance of machine m that runs tasks for a time L, from its first start to its last end, costs at least
// price·(boot + L). For any resource d, the tasks on it hold at most has_d·L of d, so
// L ≥ Σ hours/speed · holds_d/has_d over its tasks. The same holds for every average of resources with fixed weights.
// So each task adds at least its least share price·hours/speed·Σ w_d·holds_d/has_d over the machines that fit it and
// on which it can keep the deadline, and the boot of one instance comes on top. With a deadline D, L ≤ D − boot, so
// boot + L ≥ L·D/(D − boot), and each share may be multiplied by D/(D − boot) in the place of the boot of one
// instance. (The largest share over d of each task would not be sound: one task that holds all vCPUs and another that
// holds all memory can run at the same time.)
//
// The instance of a task also costs at least the billing minimum, and boot plus hours.
func (p *problem) bound() (limits, string) {
	fronts, message := p.fronts()
	if message != "" {
		return limits{}, message
	}
	b := bounder{problem: p, fronts: fronts}
	lower := limits{hours: b.paths()}
	if p.late(lower) {
		return lower, fmt.Sprintf("the longest path of tasks ends after %s at the earliest, on the fastest machines, "+
			"and the deadline is %s", text.Span(lower.hours, math.Ceil), text.Span(p.deadline, math.Floor))
	}
	for _, w := range [][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0.5, 0}, {0.5, 0, 0.5}, {0.4, 0.2, 0.4}} {
		lower.usd = max(lower.usd, b.shares(w))
	}
	lower.usd = max(lower.usd, b.single())
	lower.usd, lower.hours = lower.usd*(1-slack), lower.hours*(1-slack)
	if lower.usd > p.budget {
		return lower, fmt.Sprintf("every plan costs at least %s USD, and the budget is %s USD",
			text.USD(lower.usd), text.USD(p.budget))
	}
	return lower, ""
}

// late reports whether no plan keeps the deadline.
func (p *problem) late(lower limits) bool { return lower.hours*(1-slack) > p.deadline }

type bounder struct {
	*problem
	fronts [][]*Machine // for each class the machines that fit and are not dominated
	// ready is the earliest end of the parents of each task, head the earliest end of the task, and tail the minimum
	// time after the task.
	ready, head, tail []float64
}

// fronts returns for each class of tasks the machines that fit it and are not worse than another in everything. It
// returns a message if there is none.
func (p *problem) fronts() ([][]*Machine, string) {
	var all []*Machine
	for i := range p.model.Machines {
		if p.model.Machines[i].Most > 0 {
			all = append(all, &p.model.Machines[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *Machine) int {
		return cmp.Or(cmp.Compare(a.USDPerHour, b.USDPerHour), cmp.Compare(b.Speed, a.Speed))
	})
	var front []*Machine
	for _, m := range all {
		if !slices.ContainsFunc(front, func(o *Machine) bool { return noBetter(m, o) }) {
			front = append(front, m)
		}
	}
	fronts := make([][]*Machine, len(p.classes))
	for c, t := range p.classes {
		for _, m := range front {
			if fits(t, m) {
				fronts[c] = append(fronts[c], m)
			}
		}
		if len(fronts[c]) == 0 {
			return nil, p.noMachine(c)
		}
	}
	return fronts, ""
}

// noBetter reports whether a is not better than b in anything that the bound uses.
func noBetter(a, b *Machine) bool {
	return a.USDPerHour >= b.USDPerHour && a.CPUs <= b.CPUs && a.MemoryGiB <= b.MemoryGiB && a.GPUs <= b.GPUs &&
		a.Speed <= b.Speed && a.BootHours >= b.BootHours && a.MinimumHours >= b.MinimumHours
}

func (p *problem) noMachine(class int) string {
	t := p.classes[class]
	var parts []string
	for _, x := range []struct {
		amount float64
		name   string
	}{{t.CPUs, "vCPUs"}, {t.MemoryGiB, "GiB of memory"}, {t.GPUs, "GPUs"}} {
		if x.amount > 0 {
			parts = append(parts, fmt.Sprintf("%g %s", x.amount, x.name))
		}
	}
	return fmt.Sprintf("no machine fits task %q, which holds %s", strict.Clip(t.ID), strings.Join(parts, ", "))
}

// paths sets head and tail and returns the earliest end of the last task.
func (b *bounder) paths() float64 {
	b.ready, b.head, b.tail = make([]float64, b.n), make([]float64, b.n), make([]float64, b.n)
	fastest := make([]float64, len(b.classes))
	quick := make([][]*Machine, len(b.classes)) // not dominated in boot and speed
	for c, front := range b.fronts {
		for _, m := range front {
			fastest[c] = max(fastest[c], m.Speed)
			if !slices.ContainsFunc(quick[c], func(o *Machine) bool {
				return o.BootHours <= m.BootHours && o.Speed >= m.Speed
			}) {
				quick[c] = append(quick[c], m)
			}
		}
	}
	for t := range b.n {
		for _, a := range b.parents.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			b.ready[t] = max(b.ready[t], b.head[a.task])
		}
		b.head[t] = math.Inf(1)
		for _, m := range quick[b.class[t]] {
			b.head[t] = min(b.head[t], max(b.ready[t], m.BootHours)+b.task(t).Hours/m.Speed)
		}
	}
	longest := 0.0
	for t := b.n - 1; t >= 0; t-- {
		for _, a := range b.children.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			c := int(a.task)
			b.tail[t] = max(b.tail[t], b.tail[c]+b.task(c).Hours/fastest[b.class[c]])
		}
		longest = max(longest, b.head[t]+b.tail[t])
	}
	return longest
}

// shares is the bound by the shares of the tasks, for one weight of the resources.
func (b *bounder) shares(weights [3]float64) float64 {
	sum, sumStretched, boot := 0.0, 0.0, 0.0
	plain, stretched := 0.0, 0.0
	for t := range b.n {
		if t == 0 || !b.alike(t, t-1) { // arrays have thousands of equal tasks
			plain, stretched = b.least(t, weights)
		}
		sum, sumStretched = sum+plain, sumStretched+stretched
	}
	for _, front := range b.fronts {
		least := math.Inf(1)
		for _, m := range front {
			least = min(least, m.USDPerHour*m.BootHours)
		}
		boot = max(boot, least)
	}
	return max(sum+boot, sumStretched)
}

// least is the least share of a task over the machines on which it can keep the deadline, without and with the factor
// for the boot.
func (b *bounder) least(t int, weights [3]float64) (plain, stretched float64) {
	of := b.task(t)
	holds := [3]float64{weights[0] * of.CPUs, weights[1] * of.MemoryGiB, weights[2] * of.GPUs}
	plain, stretched = math.Inf(1), math.Inf(1)
	for _, m := range b.fronts[b.class[t]] {
		share := 0.0
		for d, has := range [3]float64{m.CPUs, m.MemoryGiB, m.GPUs} {
			if holds[d] > 0 {
				share += holds[d] / has
			}
		}
		usd := m.USDPerHour / m.Speed * share * of.Hours
		longer := usd
		if m.BootHours < b.deadline && !math.IsInf(b.deadline, 1) {
			longer *= b.deadline / (b.deadline - m.BootHours)
		}
		if (usd < plain || longer < stretched) && b.keeps(t, m) {
			plain, stretched = min(plain, usd), min(stretched, longer)
		}
	}
	if math.IsInf(plain, 1) { // a rounding error: the longest path keeps the deadline
		return 0, 0
	}
	return plain, stretched
}

// alike reports whether least has the same result for both tasks.
func (b *bounder) alike(t, u int) bool {
	x, y := b.task(t), b.task(u)
	return x.Hours == y.Hours && x.CPUs == y.CPUs && x.MemoryGiB == y.MemoryGiB && x.GPUs == y.GPUs &&
		b.class[t] == b.class[u] && b.ready[t] == b.ready[u] && b.tail[t] == b.tail[u]
}

// keeps reports whether a task can keep the deadline on a machine.
func (b *bounder) keeps(t int, m *Machine) bool {
	return (max(b.ready[t], m.BootHours)+b.task(t).Hours/m.Speed+b.tail[t])*(1-slack) <= b.deadline
}

// single is the cost of the instance of the most expensive task.
func (b *bounder) single() float64 {
	most := 0.0
	for t := range b.n {
		if t > 0 && b.alike(t, t-1) {
			continue
		}
		least := math.Inf(1)
		for _, m := range b.fronts[b.class[t]] {
			if usd := m.USDPerHour * max(m.MinimumHours, m.BootHours+b.task(t).Hours/m.Speed); usd < least &&
				b.keeps(t, m) {
				least = usd
			}
		}
		if !math.IsInf(least, 1) {
			most = max(most, least)
		}
	}
	return most
}
