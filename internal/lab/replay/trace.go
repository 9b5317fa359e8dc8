package replay

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// BadTrace is an error in a trace file, with its place.
type BadTrace struct {
	File   string
	Row    int // the header is row 1; 0 is the whole file
	Field  string
	Reason string
}

// Error returns "file: row N: field: reason".
func (e *BadTrace) Error() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Row > 0 {
		parts = append(parts, fmt.Sprintf("row %d", e.Row))
	}
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	return strings.Join(append(parts, e.Reason), ": ")
}

// Node is a machine of a trace.
type Node struct {
	Name        string
	CPU, Memory int64 // thousandths of a core, MiB
	GPUs        int
	Model       string // empty without GPUs
}

// Pod is a request for a part of a machine. Times are in seconds since the start of the trace.
type Pod struct {
	Name             string
	Row              int
	CPU, Memory      int64
	GPUs             int
	Share            int64    // of each GPU, in thousandths
	Models           []string // GPU models that it can use; empty: any
	Class            string   // quality of service; names its queue
	Namespace        string   // owner; if pods have one, shares are compared between namespaces instead of queues
	Created, Seconds float64  // arrival, and duration of its run
}

// Limits of a trace file.
const (
	maxRows   = 5_000_000
	maxAmount = 1 << 40
	maxGPUs   = 64
)

// ReadNodes reads the columns sn,cpu_milli,memory_mib,gpu,model. Errors are a *BadTrace.
func ReadNodes(file string, r io.Reader) ([]Node, error) {
	var out []Node
	seen := map[string]int{}
	err := table(file, r, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(row *row) {
		n := Node{
			Name: row.text("sn"), CPU: row.amount("cpu_milli"), Memory: row.amount("memory_mib"),
			GPUs: int(row.upTo("gpu", maxGPUs)), Model: row.text("model"),
		}
		if first := seen[n.Name]; n.Name == "" || first > 0 {
			row.fail("sn", "is empty or the same as in row "+strconv.Itoa(first))
		}
		if n.GPUs > 0 && n.Model == "" {
			row.fail("model", "is missing: the node has GPUs")
		}
		seen[n.Name] = row.number
		out = append(out, n)
	})
	if err == nil && len(out) == 0 {
		err = &BadTrace{File: file, Reason: "has no nodes"}
	}
	return out, err
}

// ReadPods reads the columns
// name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time and ignores
// others. It returns pods sorted by creation time. Errors are a *BadTrace.
func ReadPods(file string, r io.Reader) ([]Pod, error) {
	var out []Pod
	columns := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time",
		"deletion_time", "scheduled_time"}
	err := table(file, r, columns, func(row *row) {
		p := Pod{
			Name: row.text("name"), Row: row.number, CPU: row.amount("cpu_milli"), Memory: row.amount("memory_mib"),
			GPUs:  int(row.upTo("num_gpu", maxGPUs)),
			Share: row.upTo("gpu_milli", 1000), Class: row.text("qos"), Created: row.seconds("creation_time"),
		}
		for model := range strings.SplitSeq(row.text("gpu_spec"), "|") {
			if model != "" {
				p.Models = append(p.Models, model)
			}
		}
		switch {
		case p.Class == "":
			row.fail("qos", "is missing")
		case (p.GPUs == 0) != (p.Share == 0):
			row.fail("gpu_milli", fmt.Sprintf("is %d with %d GPUs", p.Share, p.GPUs))
		case p.GPUs > 1 && p.Share < 1000:
			row.fail("gpu_milli", fmt.Sprintf("is %d of each of %d GPUs: only a single one can be shared",
				p.Share, p.GPUs))
		}
		begun := p.Created
		if row.text("scheduled_time") != "" {
			begun = row.seconds("scheduled_time")
		}
		if p.Seconds = row.seconds("deletion_time") - begun; p.Seconds < 0 || begun < p.Created {
			row.fail("deletion_time", "is before scheduled_time, or scheduled_time is before creation_time")
		}
		out = append(out, p)
	})
	if err == nil && len(out) == 0 {
		err = &BadTrace{File: file, Reason: "has no pods"}
	}
	slices.SortStableFunc(out, func(a, b Pod) int { return cmp.Compare(a.Created, b.Created) })
	return out, err
}

// row is one record of a file; err is the first error found in it.
type row struct {
	file   string
	number int
	fields []string
	column map[string]int
	err    error
}

func (r *row) fail(field, reason string) {
	if r.err == nil {
		r.err = &BadTrace{r.file, r.number, field, reason}
	}
}

func (r *row) text(field string) string { return strings.TrimSpace(r.fields[r.column[field]]) }

func (r *row) amount(field string) int64 { return r.upTo(field, maxAmount) }

func (r *row) upTo(field string, most int64) int64 {
	v, err := strconv.ParseInt(r.text(field), 10, 64)
	if err != nil || v < 0 || v > most {
		r.fail(field, fmt.Sprintf("%q is not an integer from 0 to %d", r.text(field), most))
		return 0
	}
	return v
}

func (r *row) seconds(field string) float64 {
	v, err := strconv.ParseFloat(r.text(field), 64)
	if err != nil || !(v >= 0) || v > math.MaxInt32 {
		r.fail(field, fmt.Sprintf("%q is not a time in seconds", r.text(field)))
		return 0
	}
	return v
}

// table reads a CSV file whose header has the given columns, in any order. It calls each for every record.
func table(file string, in io.Reader, columns []string, each func(*row)) error {
	c := csv.NewReader(in)
	c.ReuseRecord = true
	r := &row{file: file, column: map[string]int{}}
	for {
		fields, err := c.Read()
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && r.number == 0:
			return &BadTrace{File: file, Reason: "is empty"}
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			return &BadTrace{file, bad.Line, "", bad.Err.Error()}
		case err != nil:
			return &BadTrace{File: file, Reason: err.Error()}
		}
		if r.number++; r.number > maxRows {
			return &BadTrace{file, r.number, "", "is one row too many"}
		}
		if r.number == 1 {
			for i, name := range fields {
				r.column[strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")] = i
			}
			for _, name := range columns {
				if _, ok := r.column[name]; !ok {
					return &BadTrace{file, 1, name, "the column is missing"}
				}
			}
			continue
		}
		if r.fields = fields; len(strings.Join(fields, "")) == 0 {
			continue
		}
		if each(r); r.err != nil {
			return r.err
		}
	}
}
