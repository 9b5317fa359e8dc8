package tianchi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Write writes a problem as a data set; create creates a file with the given name. The format has no racks and no
// resources other than cpu, memory, disk, P, M and PM. Resources that the problem does not have are written as 0.
func Write(create func(name string) (io.WriteCloser, error), p *placement.Problem) error {
	columns, err := columnsOf(p)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		write func(w *bufio.Writer)
	}{
		{appsFile, func(w *bufio.Writer) {
			for _, a := range p.Apps {
				writeRow(w, a.Name, columns.cells(a.Demand, Points)...)
			}
		}},
		{machinesFile, func(w *bufio.Writer) {
			for _, m := range p.Machines {
				writeRow(w, m.Name, columns.cells(p.Shapes[m.Shape].Capacity, 1)...)
			}
		}},
		{instancesFile, func(w *bufio.Writer) {
			for _, in := range p.Instances {
				machine := ""
				if in.Machine != placement.Unplaced {
					machine = p.Machines[in.Machine].Name
				}
				writeRow(w, in.Name, p.Apps[in.App].Name, machine)
			}
		}},
		{rulesFile, func(w *bufio.Writer) {
			for _, r := range p.Rules {
				k := r.Max
				if r.A == r.B {
					k--
				}
				if k >= 0 {
					writeRow(w, p.Apps[r.A].Name, p.Apps[r.B].Name, strconv.Itoa(int(k)))
				}
			}
		}},
		{priorityFile, func(w *bufio.Writer) {
			for _, a := range p.Apps {
				if a.Priority > 0 {
					writeRow(w, a.Name, strconv.Itoa(a.Priority))
				}
			}
		}},
	} {
		out, err := create(f.name + ".csv")
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(out, 1<<16)
		f.write(w) // errors are reported by Flush
		if err := errors.Join(w.Flush(), out.Close()); err != nil {
			return err
		}
	}
	return nil
}

// columns maps the resources of the format to a problem's vectors: first point and number of points, which is 0 if
// the problem does not have the resource.
type columns [2 + len(scalars)][2]int

func columnsOf(p *placement.Problem) (columns, error) {
	var c columns
	begin := 0
	for _, r := range p.Resources {
		found := false
		for i, name := range append([]string{"cpu", "memory"}, scalars[:]...) {
			if r.Name == name && (r.Points == 1 || r.Points == Points && i < 2) {
				c[i], found = [2]int{begin, r.Points}, true
			}
		}
		if !found {
			return c, fmt.Errorf("%w: the format has no resource %s with %d points", ErrData, r.Name, r.Points)
		}
		begin += r.Points
	}
	return c, nil
}

// cells formats a vector as the columns of a row; points is the number of points in the first two columns.
func (c columns) cells(v []int64, points int) []string {
	var cells []string
	for i, at := range c {
		n := 1
		if i < 2 {
			n = points
		}
		parts := make([]string, n)
		for j := range parts {
			parts[j] = "0"
			if at[1] > 0 {
				parts[j] = number(v[at[0]+min(j, at[1]-1)])
			}
		}
		cells = append(cells, strings.Join(parts, "|"))
	}
	return cells
}

// number formats parts of placement.Unit as a decimal.
func number(x int64) string {
	s := strconv.FormatInt(x/placement.Unit, 10)
	if rest := x % placement.Unit; rest != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	}
	return s
}

func writeRow(w *bufio.Writer, first string, rest ...string) {
	_, _ = w.WriteString(first)
	for _, s := range rest {
		_ = w.WriteByte(',')
		_, _ = w.WriteString(s)
	}
	_ = w.WriteByte('\n')
}
