package placement_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// story is a network, with the names that a test file uses.
type story struct {
	p *placement.Problem
	n *placement.Network
	o placement.Options
}

// TestStories runs the files in testdata. The commands are:
//
//	problem [depth=N] [exact=N]    the problem, one item a line:
//	    machine NAME cpu=N [rack=N]
//	    app NAME cpu=N [priority=N]
//	    apart A B [k]              a machine with A holds at most k (0) of B
//	    instance NAME APP [on=MACHINE]
//	remove-instance NAME
//	solve                          prints moves, machines and violations
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var err error
			switch d.Cmd {
			case "problem":
				s.o = placement.Options{}
				d.MaybeScanArgs(t, "depth", &s.o.Depth)
				d.MaybeScanArgs(t, "exact", &s.o.Exact)
				err = s.problem(d.Input)
			case "remove-instance":
				err = s.n.RemoveInstance(index(s.n.Problem().Instances, func(i placement.Instance) string { return i.Name }, d.CmdArgs[0].Key))
			case "solve":
				return s.solve()
			default:
				d.Fatalf(t, "unknown command")
			}
			if err != nil {
				return err.Error() + "\n"
			}
			return ""
		})
	})
}

func index[T any](all []T, name func(T) string, want string) int32 {
	return int32(slices.IndexFunc(all, func(x T) bool { return name(x) == want }))
}

// words splits a line into plain words and key=value pairs.
func words(line string) (plain []string, value func(key string, otherwise int) int, text func(key string) string) {
	named := map[string]string{}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			named[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	return plain, func(key string, otherwise int) int {
		if n, err := strconv.Atoi(named[key]); err == nil {
			return n
		}
		return otherwise
	}, func(key string) string { return named[key] }
}

func (s *story) shape(cpu int) int {
	c := int64(cpu) * placement.Unit
	at := slices.IndexFunc(s.p.Shapes, func(x placement.Shape) bool { return x.Capacity[0] == c })
	if at < 0 {
		at = len(s.p.Shapes)
		s.p.Shapes = append(s.p.Shapes, placement.Shape{Capacity: []int64{c}})
	}
	return at
}

func (s *story) app(name string) int32 {
	return index(s.p.Apps, func(a placement.App) string { return a.Name }, name)
}

func (s *story) problem(input string) error {
	s.p = &placement.Problem{Resources: []placement.Resource{{Name: "cpu", Points: 1}}}
	for line := range strings.Lines(input) {
		w, value, text := words(line)
		switch w[0] {
		case "machine":
			s.p.Machines = append(s.p.Machines, placement.Machine{Name: w[1], Shape: s.shape(value("cpu", 0)), Rack: value("rack", 0)})
		case "app":
			s.p.Apps = append(s.p.Apps, placement.App{
				Name: w[1], Demand: []int64{int64(value("cpu", 0)) * placement.Unit}, Priority: value("priority", 0),
			})
		case "apart":
			s.p.Rules = append(s.p.Rules, s.rule(w))
		case "instance":
			m := index(s.p.Machines, func(m placement.Machine) string { return m.Name }, text("on"))
			s.p.Instances = append(s.p.Instances, placement.Instance{Name: w[1], App: s.app(w[2]), Machine: m})
		}
	}
	var err error
	s.n, err = placement.New(s.p, s.o)
	return err
}

func (s *story) rule(w []string) placement.Rule {
	r := placement.Rule{A: s.app(w[1]), B: s.app(w[2])}
	if len(w) > 3 {
		k, _ := strconv.Atoi(w[3])
		r.Max = int32(k)
	}
	return r
}

func (s *story) solve() string {
	r, p := s.n.Solve(), s.n.Problem()
	name := func(m int32) string {
		if m == placement.Unplaced {
			return "-"
		}
		return p.Machines[m].Name
	}
	var b strings.Builder
	for _, m := range r.Moves {
		fmt.Fprintf(&b, "%s: %s -> %s\n", p.Instances[m.Instance].Name, name(m.From), name(m.To))
	}
	for m := range p.Machines {
		var on []string
		for i, at := range r.Assignment {
			if int(at) == m {
				on = append(on, p.Instances[i].Name)
			}
		}
		fmt.Fprintf(&b, "%s holds %s\n", p.Machines[m].Name, strings.Join(on, " "))
	}
	fmt.Fprintf(&b, "%d placed, %d wait", r.Placed, r.Waiting)
	if r.Optimal {
		b.WriteString(", optimal")
	}
	report, err := placement.Verify(s.n.Present())
	if err != nil {
		return err.Error()
	}
	for _, v := range report.Violations {
		fmt.Fprintf(&b, "\n%s %s: %s", v.Machine, v.Kind, v.Detail)
	}
	return b.String() + "\n"
}
