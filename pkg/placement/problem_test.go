package placement_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// small draws a problem that is small enough for enumeration.
func small(t *rapid.T, instances, machines int) *placement.Problem {
	p := &placement.Problem{Resources: []placement.Resource{{Name: "cpu", Points: 2}, {Name: "memory", Points: 1}}}
	vector := func(name string, most int64) []int64 {
		var v []int64
		for d := range p.Dims() {
			v = append(v, rapid.Int64Range(0, most).Draw(t, fmt.Sprint(name, d))*placement.Unit)
		}
		return v
	}
	for s := range rapid.IntRange(1, 2).Draw(t, "shapes") {
		p.Shapes = append(p.Shapes, placement.Shape{Capacity: vector(fmt.Sprint("capacity", s), 8)})
	}
	for m := range rapid.IntRange(1, machines).Draw(t, "machines") {
		p.Machines = append(p.Machines, placement.Machine{
			Name: fmt.Sprint("m", m), Shape: rapid.IntRange(0, len(p.Shapes)-1).Draw(t, "shape"), Rack: m % 2,
		})
	}
	for a := range rapid.IntRange(1, 4).Draw(t, "apps") {
		p.Apps = append(p.Apps, placement.App{
			Name: fmt.Sprint("a", a), Demand: vector(fmt.Sprint("demand", a), 4), Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
		})
	}
	app := rapid.Int32Range(0, int32(len(p.Apps)-1))
	for range rapid.IntRange(0, 5).Draw(t, "rules") {
		p.Rules = append(p.Rules, placement.Rule{A: app.Draw(t, "a"), B: app.Draw(t, "b"), Max: rapid.Int32Range(0, 2).Draw(t, "max")})
	}
	if rapid.Bool().Draw(t, "places") {
		places(t, p)
	}
	for i := range rapid.IntRange(1, instances).Draw(t, "instances") {
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", i), App: app.Draw(t, "app"), Machine: placement.Unplaced})
	}
	return p
}

// places adds groups that are spread or packed, and barred machines, to a problem.
func places(t *rapid.T, p *placement.Problem) {
	for m := range p.Machines {
		p.Machines[m].Cluster = rapid.IntRange(0, 1).Draw(t, "cluster")
	}
	for range rapid.IntRange(0, 2).Draw(t, "groups") {
		g := placement.Group{By: placement.Level(rapid.IntRange(0, 1).Draw(t, "by")), Max: rapid.Int32Range(0, 2).Draw(t, "most")}
		for a := range p.Apps {
			if rapid.Bool().Draw(t, "in") {
				g.Apps = append(g.Apps, int32(a))
			}
		}
		p.Groups = append(p.Groups, g)
	}
	for a := range p.Apps {
		if rapid.IntRange(0, 3).Draw(t, "barred") == 0 {
			p.Apps[a].Barred = []int32{rapid.Int32Range(0, int32(len(p.Machines)-1)).Draw(t, "from")}
		}
	}
}

// placed reports whether an assignment respects groups and barred machines, as simply as possible.
func placed(p *placement.Problem, a placement.Assignment) bool {
	for i, m := range a {
		for _, b := range p.Apps[p.Instances[i].App].Barred {
			if m == b {
				return false
			}
		}
	}
	for _, g := range p.Groups {
		in := map[string]int{}
		for i, m := range a {
			for _, app := range g.Apps {
				if m != placement.Unplaced && p.Instances[i].App == app {
					at := fmt.Sprint(p.Machines[m].Cluster)
					if g.By == placement.ByRack {
						at += fmt.Sprint("/", p.Machines[m].Rack)
					}
					in[at]++
				}
			}
		}
		for _, n := range in {
			if g.Max == 0 && len(in) > 1 || g.Max > 0 && n > int(g.Max) {
				return false
			}
		}
	}
	return true
}

// allowed reports whether an assignment respects capacities and rules, as simply as possible.
func allowed(p *placement.Problem, a placement.Assignment) bool {
	if !placed(p, a) {
		return false
	}
	for m := range p.Machines {
		count := make([]int, len(p.Apps))
		load := make([]int64, p.Dims())
		for i, at := range a {
			if int(at) == m {
				app := p.Instances[i].App
				count[app]++
				for d, x := range p.Apps[app].Demand {
					load[d] += x
				}
			}
		}
		for d, x := range load {
			if x > p.Shapes[p.Machines[m].Shape].Capacity[d] {
				return false
			}
		}
		for _, r := range p.Rules {
			if count[r.A] > 0 && count[r.B] > int(r.Max) {
				return false
			}
		}
	}
	return true
}

// every calls f with each allowed assignment.
func every(p *placement.Problem, f func(placement.Assignment)) {
	a := make(placement.Assignment, len(p.Instances))
	for i := range a {
		a[i] = placement.Unplaced
	}
	var place func(i int)
	place = func(i int) {
		if i == len(a) {
			f(a)
			return
		}
		for m := placement.Unplaced; int(m) < len(p.Machines); m++ {
			a[i] = m
			if allowed(p, a) { // a part of an allowed assignment is allowed as well
				place(i + 1)
			}
		}
		a[i] = placement.Unplaced
	}
	place(0)
}

// best returns the largest weighted flow over all assignments.
func best(p *placement.Problem) *big.Int {
	most := new(big.Int)
	every(p, func(a placement.Assignment) {
		if v := placement.Value(p, a); v.Cmp(most) > 0 {
			most = v
		}
	})
	return most
}

func TestValidateNamesTheField(t *testing.T) {
	good := func() *placement.Problem {
		return &placement.Problem{
			Resources: []placement.Resource{{Name: "cpu", Points: 1}},
			Shapes:    []placement.Shape{{Capacity: []int64{1}}},
			Machines:  []placement.Machine{{Name: "m"}},
			Apps:      []placement.App{{Name: "a", Demand: []int64{1}}},
			Instances: []placement.Instance{{Name: "i"}},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*placement.Problem){
		"shapes[0].capacity: it has 0 points":     func(p *placement.Problem) { p.Shapes[0].Capacity = nil },
		"machines[0] (m): shape 1 does not exist": func(p *placement.Problem) { p.Machines[0].Shape = 1 },
		"machines[0] (m): rack -1":                func(p *placement.Problem) { p.Machines[0].Rack = -1 },
		"apps[0] (a): demand: point 0":            func(p *placement.Problem) { p.Apps[0].Demand[0] = -1 },
		"apps[0] (a): priority -1":                func(p *placement.Problem) { p.Apps[0].Priority = -1 },
		"instances[0] (i): app 1 does not exist":  func(p *placement.Problem) { p.Instances[0].App = 1 },
		"instances[0] (i): machine 7":             func(p *placement.Problem) { p.Instances[0].Machine = 7 },
		"rules[0]":                                func(p *placement.Problem) { p.Rules = []placement.Rule{{Max: -1}} },
	} {
		p := good()
		spoil(p)
		if err := p.Validate(); !errors.Is(err, placement.ErrProblem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

func TestWeightsDominateLowerPriorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 12, 3)
		priorities, weights := placement.Weights(p)
		below := new(big.Int)
		for x, priority := range priorities {
			if weights[x].Cmp(below) <= 0 {
				t.Fatalf("priority %d weighs %v, all below it together %v", priority, weights[x], below)
			}
			n := int64(0)
			for _, in := range p.Instances {
				if p.Apps[in.App].Priority == priority {
					n++
				}
			}
			below.Add(below, new(big.Int).Mul(weights[x], big.NewInt(n)))
		}
	})
}

func TestLowerBoundIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 5, 3)
		bound := placement.LowerBound(p)
		every(p, func(a placement.Assignment) {
			used := map[int32]bool{}
			for _, m := range a {
				if m == placement.Unplaced {
					return
				}
				used[m] = true
			}
			if len(used) < bound {
				t.Fatalf("%v needs %d machines, the bound is %d", a, len(used), bound)
			}
		})
	})
}

func TestVerifyMatchesSimpleCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 8, 3)
		a := make(placement.Assignment, len(p.Instances))
		placed, used := 0, map[int32]bool{}
		for i := range a {
			a[i] = rapid.Int32Range(placement.Unplaced, int32(len(p.Machines)-1)).Draw(t, "at")
			if a[i] != placement.Unplaced {
				placed++
				used[a[i]] = true
			}
		}
		r, err := placement.Verify(p, a)
		if err != nil {
			t.Fatal(err)
		}
		broken := 0
		for _, v := range r.Violations {
			if v.Kind != placement.Outranked {
				broken++
			}
		}
		if (broken == 0) != allowed(p, a) || r.Placed != placed || r.Machines != len(used) || r.Instances != len(a) {
			t.Fatalf("%+v for %v", r, a)
		}
	})
}

// TestVerifyFindsSingleViolation changes a valid assignment so that it violates one constraint. Verify must report
// that one.
func TestVerifyFindsSingleViolation(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 3}, {Name: "disk", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{4, 4, 4, 10}}},
		Machines:  []placement.Machine{{Name: "m0"}, {Name: "m1"}, {Name: "m2"}},
		Apps: []placement.App{
			{Name: "web", Demand: []int64{2, 1, 2, 1}, Priority: 1}, {Name: "db", Demand: []int64{1, 3, 1, 1}}, {Name: "log", Demand: []int64{0, 0, 0, 6}},
		},
		Rules: []placement.Rule{{A: 0, B: 0, Max: 1}, {A: 2, B: 0, Max: 0}},
	}
	for i, app := range []int32{0, 0, 1, 1, 2} {
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", i), App: app})
	}
	good := placement.Assignment{0, 1, 0, 1, 2}
	check := func(a placement.Assignment, want string) {
		t.Helper()
		r, err := placement.Verify(p, a)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range r.Violations {
			got = append(got, fmt.Sprintf("%s %s: %s", v.Machine, v.Kind, v.Detail))
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%v: got %q, want %q", a, s, want)
		}
	}
	check(good, "")
	check(placement.Assignment{0, 1, 0, 0, 2}, "m0 capacity: cpu[1] is 7e-09 of 4e-09")
	check(placement.Assignment{0, 0, 2, 1, 1}, "m0 affinity: 2 of web, at most 1 together with web")
	check(placement.Assignment{0, 1, 0, 2, 1}, "m1 affinity: 1 of web, at most 0 together with log")
	check(placement.Assignment{0, 1, 0, -1, 2}, "") // instances without priority may wait
	check(placement.Assignment{0, -1, 0, 1, 2}, "m1 priority: web (priority 1) waits while 1 of lower priority use its place")
	for _, bad := range []placement.Assignment{good[:4], {0, 1, 0, 1, 3}, {0, 1, 0, 1, -2}} {
		if _, err := placement.Verify(p, bad); !errors.Is(err, placement.ErrProblem) {
			t.Errorf("%v: got %v", bad, err)
		}
	}
}
