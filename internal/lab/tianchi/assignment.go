package tianchi

import (
	"bufio"
	"io"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// ReadAssignment reads lines of the form instance,machine. name is the file name for errors. Each instance has at
// most one line. Instances without a line, or with an empty machine, are not placed.
func ReadAssignment(name string, in io.Reader, p *placement.Problem) (placement.Assignment, error) {
	instances := make(map[string]int32, len(p.Instances))
	for i, inst := range p.Instances {
		instances[inst.Name] = int32(i) //nolint:gosec // rows in memory
	}
	machines := make(map[string]int32, len(p.Machines))
	for i, m := range p.Machines {
		machines[m.Name] = int32(i) //nolint:gosec // rows in memory
	}
	a := make(placement.Assignment, len(p.Instances))
	for i := range a {
		a[i] = placement.Unplaced
	}
	seen := make([]bool, len(a))
	err := each(name, in, func(r *rows) error {
		i, err := r.known(0, instances, "the data set")
		if err != nil {
			return err
		}
		if seen[i] {
			return r.bad(0, "%s is listed twice", r.cells[0])
		}
		seen[i] = true
		if len(r.cells[1]) > 0 {
			a[i], err = r.known(1, machines, "the data set")
		}
		return err
	}, "instance", "machine")
	if err != nil {
		return nil, err
	}
	return a, nil
}

// WriteAssignment writes a line for each placed instance, in the order of the data set.
func WriteAssignment(w io.Writer, p *placement.Problem, a placement.Assignment) error {
	out := bufio.NewWriter(w)
	for i, m := range a {
		if m == placement.Unplaced {
			continue
		}
		for _, s := range []string{p.Instances[i].Name, ",", p.Machines[m].Name, "\n"} {
			if _, err := out.WriteString(s); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}
