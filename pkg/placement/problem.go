package placement

import (
	"errors"
	"fmt"
	"math"
)

// Unit is how many parts one of a resource has: a demand of 1.5 CPUs is 1.5·Unit.
const Unit = 1_000_000_000

// MaxValue is the largest demand or capacity, in units of a resource: sums of many stay exact.
const MaxValue = 1_000_000

// Unplaced is the machine of an instance that is on none.
const Unplaced int32 = -1

// NoLimit is a rule's Max that limits nothing.
const NoLimit = math.MaxInt32

// ErrProblem is wrapped by what [Problem.Validate] returns.
var ErrProblem = errors.New("bad placement problem")

// Resource is one resource and the points in time at which it is counted.
type Resource struct {
	Name   string
	Points int // 1 for a quantity that does not change
}

// Shape is what machines of one kind can hold.
type Shape struct {
	Capacity []int64 // at each point of each resource, in parts of Unit
}

// Machine is one machine. Racks and clusters are numbered from 0; they are the
// vertices R and G of the network.
type Machine struct {
	Name    string
	Shape   int
	Rack    int
	Cluster int
}

// App is what its instances have in common.
type App struct {
	Name     string
	Demand   []int64 // as Shape.Capacity
	Priority int     // 0 is the lowest
	Barred   []int32 // machines that its instances may not be on
}

// Instance is one container of an app.
type Instance struct {
	Name    string
	App     int32
	Machine int32 // where it runs already, or Unplaced
}

// Rule is an anti-affinity rule: a machine with an instance of app A holds at
// most Max of app B. With A == B it bounds how many of A a machine holds at all.
// Max 0 across apps means that the two are never together.
type Rule struct {
	A, B int32
	Max  int32
}

// Problem is a pool of machines and what is to run on it.
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

// Dims is the length of demand and capacity vectors.
func (p *Problem) Dims() int {
	n := 0
	for _, r := range p.Resources {
		n += r.Points
	}
	return n
}

// Deployed is the assignment that the instances are in already.
func (p *Problem) Deployed() Assignment {
	a := make(Assignment, len(p.Instances))
	for i, in := range p.Instances {
		a[i] = in.Machine
	}
	return a
}

// PointName names a point of the vectors: "cpu[45]", "disk".
func (p *Problem) PointName(d int) string {
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

// Validate says whether the problem is well formed; its error wraps ErrProblem and names the field.
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
			return fmt.Errorf("machines[%d] (%s): shape %d of %d", i, m.Name, m.Shape, len(p.Shapes))
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
			return fmt.Errorf("rules[%d]: apps %d and %d of %d, at most %d", i, r.A, r.B, len(p.Apps), r.Max)
		}
	}
	return nil
}

func (p *Problem) validateInstances() error {
	for i, in := range p.Instances {
		if in.App < 0 || int(in.App) >= len(p.Apps) {
			return fmt.Errorf("instances[%d] (%s): app %d of %d", i, in.Name, in.App, len(p.Apps))
		}
		if in.Machine < Unplaced || int(in.Machine) >= len(p.Machines) {
			return fmt.Errorf("instances[%d] (%s): machine %d of %d", i, in.Name, in.Machine, len(p.Machines))
		}
	}
	return nil
}

func checkVector(v []int64, dims int) error {
	if len(v) != dims {
		return fmt.Errorf("%d points, not %d", len(v), dims)
	}
	for d, x := range v {
		if x < 0 || x > MaxValue*Unit {
			return fmt.Errorf("point %d is %g, not from 0 to %d", d, float64(x)/Unit, MaxValue)
		}
	}
	return nil
}
