package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Kind is the kind of constraint that a violation breaks.
type Kind string

// The kinds of violations.
const (
	OverCapacity Kind = "capacity" // a machine holds more of a resource than it has
	Together     Kind = "affinity" // a machine holds instances that a rule separates
	Misplaced    Kind = "place"    // an instance is on a barred machine, or a group breaks its rule
	Outranked    Kind = "priority" // an instance waits while instances of lower priority use its place
)

// Violation is one broken constraint.
type Violation struct {
	Kind    Kind   `json:"kind"`
	Machine string `json:"machine"`
	Detail  string `json:"detail"`
}

// Report is the result of Verify.
type Report struct {
	Instances  int
	Placed     int
	Machines   int         // with at least one instance
	Violations []Violation // of capacity: one for each machine and resource; of affinity: one for each machine and rule
}

// Verify checks an assignment exactly against every constraint of a problem, in one pass over its machines. It shares
// no code with the solvers.
//
// It also finds priority violations: an instance that is not placed although it would fit on some machine if
// instances of lower priority left.
func Verify(p *Problem, a Assignment) (*Report, error) {
	if len(a) != len(p.Instances) {
		return nil, fmt.Errorf("%w: the assignment has %d instances, not %d", ErrProblem, len(a), len(p.Instances))
	}
	r := &Report{Instances: len(a)}
	on := make([][]int32, len(p.Machines)) // apps of the instances on each machine
	waiting := map[int32]bool{}            // apps with an instance that is not placed
	for i, m := range a {
		switch {
		case m == Unplaced:
			waiting[p.Instances[i].App] = true
			continue
		case m < 0 || int(m) >= len(p.Machines):
			return nil, fmt.Errorf("%w: instance %s is on machine %d of %d", ErrProblem, p.Instances[i].Name, m,
				len(p.Machines))
		}
		r.Placed++
		on[m] = append(on[m], p.Instances[i].App)
	}
	v := verifier{p: p, rules: rulesOf(p), report: r}
	for m, apps := range on {
		if len(apps) == 0 {
			continue
		}
		r.Machines++
		v.capacity(m, apps)
		v.affinity(m, apps)
	}
	v.groups(on)
	v.priority(on, waiting)
	return r, nil
}

// rulesOf returns, for each app, the rules whose A it is.
func rulesOf(p *Problem) [][]Rule {
	rules := make([][]Rule, len(p.Apps))
	for _, r := range p.Rules {
		rules[r.A] = append(rules[r.A], r)
	}
	return rules
}

type verifier struct {
	p      *Problem
	rules  [][]Rule
	report *Report
}

func (v *verifier) add(kind Kind, m int, format string, args ...any) {
	v.report.Violations = append(v.report.Violations,
		Violation{Kind: kind, Machine: v.p.Machines[m].Name, Detail: fmt.Sprintf(format, args...)})
}

func (v *verifier) capacity(m int, apps []int32) {
	capacity := v.p.Shapes[v.p.Machines[m].Shape].Capacity
	sum := v.sum(apps)
	d := 0
	for _, r := range v.p.Resources {
		worst, over := 0, int64(0)
		for range r.Points {
			if o := sum[d] - capacity[d]; o > over {
				worst, over = d, o
			}
			d++
		}
		if over > 0 {
			v.add(OverCapacity, m, "%s is %s of %s", v.p.pointName(worst), amount(sum[worst]), amount(capacity[worst]))
		}
	}
}

// sum adds demands. A sum that would overflow is math.MaxInt64.
func (v *verifier) sum(apps []int32) []int64 {
	sum := make([]int64, v.p.Dims())
	for _, app := range apps {
		for d, x := range v.p.Apps[app].Demand {
			if sum[d] > math.MaxInt64-x {
				sum[d] = math.MaxInt64
				continue
			}
			sum[d] += x
		}
	}
	return sum
}

func amount(x int64) string {
	return fmt.Sprintf("%.9g", float64(x)/Unit)
}

func (v *verifier) affinity(m int, apps []int32) {
	for _, b := range v.broken(apps) {
		v.add(Together, m, "%d of %s, at most %d together with %s",
			b.count, v.p.Apps[b.rule.B].Name, b.rule.Max, v.p.Apps[b.rule.A].Name)
	}
}

type brokenRule struct {
	rule  Rule
	count int
}

// broken returns the rules that a machine with these apps breaks, in the order of apps and rules.
func (v *verifier) broken(apps []int32) []brokenRule {
	count := make(map[int32]int, len(apps))
	for _, app := range apps {
		count[app]++
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(apps)))
	var broken []brokenRule
	for _, app := range distinct {
		for _, rule := range v.rules[app] {
			if n := count[rule.B]; n > int(rule.Max) {
				broken = append(broken, brokenRule{rule, n})
			}
		}
	}
	return broken
}

// priority looks, for each waiting app, for one machine on which it would fit without the instances of lower
// priority.
func (v *verifier) priority(on [][]int32, waiting map[int32]bool) {
	apps := make([]int32, 0, len(waiting))
	for app := range waiting {
		if v.p.Apps[app].Priority > 0 {
			apps = append(apps, app)
		}
	}
	slices.SortFunc(apps, cmp.Compare[int32])
	for _, app := range apps {
		for m := range on {
			if n := v.outranked(app, m, on); n > 0 {
				v.add(Outranked, m, "%s (priority %d) waits while %d of lower priority use its place",
					v.p.Apps[app].Name, v.p.Apps[app].Priority, n)
				break
			}
		}
	}
}

// outranked returns how many instances of lower priority would have to leave a machine to make room for the app. It
// is 0 if there are none, or if the app would still not fit.
func (v *verifier) outranked(app int32, m int, on [][]int32) int {
	apps := on[m]
	kept := []int32{app}
	for _, other := range apps {
		if v.p.Apps[other].Priority >= v.p.Apps[app].Priority {
			kept = append(kept, other)
		}
	}
	below := len(apps) + 1 - len(kept)
	if below == 0 || len(v.broken(kept)) > 0 || v.misplaced(on, app, m) {
		return 0
	}
	capacity := v.p.Shapes[v.p.Machines[m].Shape].Capacity
	for d, x := range v.sum(kept) {
		if x > capacity[d] {
			return 0
		}
	}
	return below
}

// groups checks barred machines and groups.
func (v *verifier) groups(on [][]int32) {
	for m, apps := range on {
		for _, app := range slices.Compact(slices.Sorted(slices.Values(apps))) {
			if slices.Contains(v.p.Apps[app].Barred, int32(m)) { //nolint:gosec // machines in memory
				v.add(Misplaced, m, "%s is barred from it", v.p.Apps[app].Name)
			}
		}
	}
	for g := range v.p.Groups {
		group := &v.p.Groups[g]
		in := v.inPlaces(group, on)
		for _, place := range in {
			switch {
			case group.Packs() && len(in) > 1:
				v.add(Misplaced, place.machine, "%d of group %d are in its %s, but others are not", place.count,
					g, group.By)
			case !group.Packs() && place.count > int(group.Max):
				v.add(Misplaced, place.machine, "%d of group %d are in its %s, at most %d", place.count, g, group.By,
					group.Max)
			}
		}
	}
}

// place is a rack or cluster: one of its machines, and how many instances of a group it has.
type place struct{ machine, count int }

// inPlaces counts the instances of a group by rack or cluster, in the order of machines.
func (v *verifier) inPlaces(g *Group, on [][]int32) (out []place) {
	index := map[[2]int]int{}
	for m, apps := range on {
		machine := v.p.Machines[m]
		key := [2]int{machine.Cluster, machine.Rack}
		if g.By == ByCluster {
			key[1] = 0
		}
		for _, app := range apps {
			if !slices.Contains(g.Apps, app) {
				continue
			}
			at, known := index[key]
			if !known {
				at = len(out)
				index[key] = at
				out = append(out, place{machine: m})
			}
			out[at].count++
		}
	}
	return out
}

// misplaced reports whether one more instance of an app on a machine would break a group or be barred.
func (v *verifier) misplaced(on [][]int32, app int32, m int) bool {
	if len(v.p.Groups) == 0 && len(v.p.Apps[app].Barred) == 0 {
		return false
	}
	// Like the network, this counts the instances that would leave as still present.
	then := slices.Clone(on)
	then[m] = append(slices.Clone(on[m]), app)
	before := len(v.report.Violations)
	v.groups(then)
	wrong := len(v.report.Violations) > before
	v.report.Violations = v.report.Violations[:before]
	return wrong
}
