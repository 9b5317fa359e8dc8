package pack_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/lab/tianchi"
	"github.com/tradewind-broker/tradewind/internal/placement/baseline"
	"github.com/tradewind-broker/tradewind/pkg/placement"
	"github.com/tradewind-broker/tradewind/pkg/placement/pack"
)

// draw draws a problem with load curves. All amounts are in tenths.
func draw(t *rapid.T, instances, machines int) *placement.Problem {
	const points = 4
	p := &placement.Problem{Resources: []placement.Resource{{Name: "cpu", Points: points}, {Name: "disk", Points: 1}}}
	vector := func(name string, most int64) []int64 {
		var v []int64
		for d := range p.Dims() {
			v = append(v, rapid.Int64Range(0, most).Draw(t, fmt.Sprint(name, d))*placement.Unit/10)
		}
		return v
	}
	for s := range rapid.IntRange(1, 2).Draw(t, "shapes") {
		p.Shapes = append(p.Shapes, placement.Shape{Capacity: vector(fmt.Sprint("capacity", s), 100)})
	}
	for m := range rapid.IntRange(1, machines).Draw(t, "machines") {
		p.Machines = append(p.Machines, placement.Machine{Name: fmt.Sprint("m", m), Shape: rapid.IntRange(0, len(p.Shapes)-1).Draw(t, "shape")})
	}
	for a := range rapid.IntRange(1, 4).Draw(t, "apps") {
		p.Apps = append(p.Apps, placement.App{Name: fmt.Sprint("a", a), Demand: vector(fmt.Sprint("demand", a), 50)})
	}
	app := rapid.Int32Range(0, int32(len(p.Apps)-1))
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		p.Rules = append(p.Rules, placement.Rule{A: app.Draw(t, "a"), B: app.Draw(t, "b"), Max: rapid.Int32Range(0, 2).Draw(t, "max")})
	}
	for i := range rapid.IntRange(1, instances).Draw(t, "instances") {
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", i), App: app.Draw(t, "app"), Machine: placement.Unplaced})
	}
	return p
}

// optimum returns the maximum number of instances that can be placed, and the minimum number of machines for that. It
// enumerates all assignments.
func optimum(t *rapid.T, p *placement.Problem) (placed, machines int) {
	a := make(placement.Assignment, len(p.Instances))
	for i := range a {
		a[i] = placement.Unplaced
	}
	var place func(i int)
	place = func(i int) {
		r, err := placement.Verify(p, a)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Violations) > 0 {
			return
		}
		if i == len(a) {
			if r.Placed > placed || r.Placed == placed && r.Machines < machines {
				placed, machines = r.Placed, r.Machines
			}
			return
		}
		for m := placement.Unplaced; int(m) < len(p.Machines); m++ {
			a[i] = m
			place(i + 1)
		}
		a[i] = placement.Unplaced
	}
	place(0)
	return placed, machines
}

func TestPackSolvesSmallProblemsOptimally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 5, 3)
		r, err := pack.Pack(p, pack.Options{Seed: 1, Steps: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		if placed, machines := optimum(t, p); r.Placed != placed || r.Placed == len(p.Instances) && r.Machines != machines {
			t.Fatalf("%d placed on %d machines; %d on %d is possible", r.Placed, r.Machines, placed, machines)
		}
	})
}

func TestPackRespectsConstraints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 60, 12)
		r, err := pack.Pack(p, pack.Options{Seed: rapid.Uint64().Draw(t, "seed"), Steps: rapid.IntRange(1, 3000).Draw(t, "steps")})
		if err != nil {
			t.Fatal(err)
		}
		report, err := placement.Verify(p, r.Assignment)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Violations) > 0 || report.Placed != r.Placed || report.Machines != r.Machines {
			t.Fatalf("%+v, but %d placed on %d", report, r.Placed, r.Machines)
		}
		if report.Placed == report.Instances && report.Machines < r.Bound {
			t.Fatalf("%d machines, the bound is %d", report.Machines, r.Bound)
		}
	})
}

func TestPackIsDeterministic(t *testing.T) {
	p, err := placement.Generate(placement.Setting{Machines: 60, Containers: 500, Apps: 80, AntiAffinity: 0.7, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64) *pack.Result {
		r, err := pack.Pack(p, pack.Options{Seed: seed, Steps: 2000})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, two := run(1), run(1)
	if !slices.Equal(one.Assignment, two.Assignment) || one.Steps != two.Steps {
		t.Error("two runs differ")
	}
	if first, err := placement.Verify(p, baseline.FirstFit(p)); err != nil || one.Machines > first.Machines {
		t.Errorf("%d machines, first fit needs %d (%v)", one.Machines, first.Machines, err)
	}
}

func TestPackReturnsAssignmentWhenStopped(t *testing.T) {
	p, err := placement.Generate(placement.Setting{Machines: 100, Containers: 800, Apps: 100, AntiAffinity: 0.7, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pack.Pack(p, pack.Options{Stop: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	report, err := placement.Verify(p, r.Assignment)
	if err != nil || len(report.Violations) > 0 || report.Placed != 800 {
		t.Errorf("%+v, %v", report, err)
	}
}

// The instances fill the machines exactly, with amounts that have no exact binary fraction. Pack must find that.
func TestPackFindsExactFit(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{placement.Unit}}},
		Machines:  []placement.Machine{{Name: "m0"}, {Name: "m1"}},
		Apps:      []placement.App{{Name: "a", Demand: []int64{placement.Unit / 10}}},
	}
	for i := range 20 {
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", i)})
	}
	r, err := pack.Pack(p, pack.Options{Steps: 10_000})
	if err != nil || r.Placed != 20 || r.Machines != 2 || !r.Exact {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPackRejectsEndlessSearch(t *testing.T) {
	for _, o := range []pack.Options{{}, {Steps: -1}} {
		if _, err := pack.Pack(&placement.Problem{}, o); !errors.Is(err, pack.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	r, err := pack.Pack(&placement.Problem{}, pack.Options{Steps: 1})
	if err != nil || r.Placed != 0 || r.Machines != 0 {
		t.Errorf("nothing to place: %+v, %v", r, err)
	}
}

func TestPackContestData(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const contest = "../../../../shared/data/cluster-traces/alibaba-tianchi-2018"
	if _, err := os.Stat(contest); err != nil {
		t.Skip("the contest's data set is missing: ", err)
	}
	p, err := tianchi.Read(os.DirFS(contest))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pack.Pack(p, pack.Options{Seed: 1, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	report, err := placement.Verify(p, r.Assignment)
	if err != nil {
		t.Fatal(err)
	}
	if report.Placed != 68_224 || len(report.Violations) > 0 || report.Machines > 2450 {
		t.Errorf("%d placed on %d machines, %d violations", report.Placed, report.Machines, len(report.Violations))
	}
}
