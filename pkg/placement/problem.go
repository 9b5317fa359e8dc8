package placement

import (
	"errors"
	"fmt"
	"math"
)

// Unit is the number of parts in one unit of a resource: a demand of 1.5 CPUs is 1.5·Unit.
const Unit = 1_000_000_000

// MaxValue is the maximum demand or capacity, in units of a resource, so that sums of many are exact.
const MaxValue = 1_000_000

// Unplaced is the machine of an instance without a machine.
const Unplaced int32 = -1

// NoLimit is the Max of a rule without a limit.
const NoLimit = math.MaxInt32

// ErrProblem is wrapped by the errors of [Problem.Validate].
var ErrProblem = errors.New("bad placement problem")

// Resource is one resource and the number of points in time at which it is measured.
type Resource struct {
	Name   string
	Points int // 1 for a constant quantity
}

// Shape is the capacity of one kind of machine.
type Shape struct {
	Capacity []int64 // at each point of each resource, in parts of Unit
}

// Machine is one machine. Racks and clusters are numbered from 0. They are the vertices R and G of the network.
type Machine struct {
	Name    string
	Shape   int
	Rack    int
	Cluster int
}

// App holds the common properties of its instances.
type App struct {
	Name     string
	Demand   []int64 // as Shape.Capacity
	Priority int     // 0 is the lowest
	Barred   []int32 // machines on which its instances must not run
}

// Instance is one container of an app.
type Instance struct {
	Name    string
	App     int32
	Machine int32 // where it already runs, or Unplaced
}

// Rule is an anti-affinity rule: a machine with an instance of app A holds at most Max instances of app B. If A == B,
// it limits the instances of A on a machine. If A != B, Max 0 means that the two apps never share a machine.
type Rule struct {
	A, B int32
	Max  int32
}

// Problem is a pool of machines and the instances to place on it.
type Problem struct {
	Resources []Resource
	Shapes    []Shape
	Machines  []Machine
	Apps      []App
	Instances []Instance
	Rules     []Rule
	Groups    []Group
}

// Assignment is the machine of each instance of a problem, or Unplaced.
type Assignment []int32

// Dims returns the length of demand and capacity vectors.
func (p *Problem) Dims() int {
	n := 0
	for _, r := range p.Resources {
		n += r.Points
	}
	return n
}

// Deployed returns the current assignment of the instances.
func (p *Problem) Deployed() Assignment {
	a := make(Assignment, len(p.Instances))
	for i, in := range p.Instances {
		a[i] = in.Machine
	}
	return a
}

// pointName returns the name of a point of the vectors, such as "cpu[45]" or "disk".
func (p *Problem) pointName(d int) string {
	for _, r := range p.Resources {
		if d < r.Points {
			if r.Points == 1 {
				return r.Name
			}
			return fmt.Sprintf("%s[%d]", r.Name, d)
		}
		d -= r.Points
	}
	return "?"
}

// Validate checks that the problem is well formed. Its error wraps ErrProblem and names the field.
func (p *Problem) Validate() error {
	for _, check := range []func() error{p.validateMachines, p.validateApps, p.validateInstances,
		p.validateGroups} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", ErrProblem, err)
		}
	}
	return nil
}

func (p *Problem) validateMachines() error {
	dims := p.Dims()
	for i, s := range p.Shapes {
		if err := checkVector(s.Capacity, dims); err != nil {
			return fmt.Errorf("shapes[%d].capacity: %w", i, err)
		}
	}
	for i, m := range p.Machines {
		if m.Shape < 0 || m.Shape >= len(p.Shapes) {
			return fmt.Errorf("machines[%d] (%s): shape %d does not exist (there are %d, numbered from 0)",
				i, m.Name, m.Shape, len(p.Shapes))
		}
		if m.Rack < 0 || m.Cluster < 0 {
			return fmt.Errorf("machines[%d] (%s): rack %d, cluster %d: they are numbered from 0", i, m.Name,
				m.Rack, m.Cluster)
		}
	}
	return nil
}

func (p *Problem) validateApps() error {
	dims := p.Dims()
	for i, a := range p.Apps {
		if err := checkVector(a.Demand, dims); err != nil {
			return fmt.Errorf("apps[%d] (%s): demand: %w", i, a.Name, err)
		}
		if a.Priority < 0 {
			return fmt.Errorf("apps[%d] (%s): priority %d is below 0", i, a.Name, a.Priority)
		}
	}
	for i, r := range p.Rules {
		if r.A < 0 || r.B < 0 || int(r.A) >= len(p.Apps) || int(r.B) >= len(p.Apps) || r.Max < 0 {
			return fmt.Errorf("rules[%d]: apps %d and %d must be from 0 to %d, and the maximum %d not below 0",
				i, r.A, r.B, len(p.Apps)-1, r.Max)
		}
	}
	return nil
}

func (p *Problem) validateInstances() error {
	for i, in := range p.Instances {
		if in.App < 0 || int(in.App) >= len(p.Apps) {
			return fmt.Errorf("instances[%d] (%s): app %d does not exist (there are %d, numbered from 0)",
				i, in.Name, in.App, len(p.Apps))
		}
		if in.Machine < Unplaced || int(in.Machine) >= len(p.Machines) {
			return fmt.Errorf("instances[%d] (%s): machine %d does not exist (there are %d, numbered from 0)",
				i, in.Name, in.Machine, len(p.Machines))
		}
	}
	return nil
}

func checkVector(v []int64, dims int) error {
	if len(v) != dims {
		return fmt.Errorf("it has %d points instead of %d", len(v), dims)
	}
	for d, x := range v {
		if x < 0 || x > MaxValue*Unit {
			return fmt.Errorf("point %d is %g, but must be from 0 to %d", d, float64(x)/Unit, MaxValue)
		}
	}
	return nil
}
