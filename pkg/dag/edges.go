package dag

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// OutputSizes computes the size of the data of an edge that carries named outputs of its first task. The time for
// each does not depend on the number of the task's outputs.
type OutputSizes struct {
	job    *Job
	totals []GiB            // by task; -1: not computed yet
	byName []map[string]GiB // by task; nil: not computed yet
}

// NewOutputSizes returns the OutputSizes of a job. Its tasks and outputs must not change any more.
func NewOutputSizes(j *Job) *OutputSizes {
	s := &OutputSizes{job: j, totals: make([]GiB, len(j.Tasks)), byName: make([]map[string]GiB, len(j.Tasks))}
	for i := range s.totals {
		s.totals[i] = -1
	}
	return s
}

// Total returns the total size of the named outputs of a task; nil means all outputs.
func (s *OutputSizes) Total(task int, names []string) (GiB, error) {
	outputs := s.job.Tasks[task].Outputs
	if names == nil {
		if s.totals[task] < 0 {
			var sum GiB
			for i := range outputs {
				sum += outputs[i].Size
			}
			s.totals[task] = sum
		}
		return s.totals[task], s.totals[task].Check()
	}
	if s.byName[task] == nil {
		s.byName[task] = make(map[string]GiB, len(outputs))
		for i := range outputs {
			s.byName[task][outputs[i].Name] = outputs[i].Size
		}
	}
	var sum GiB
	for _, name := range names {
		size, ok := s.byName[task][name]
		if !ok {
			return 0, s.missing(task, name)
		}
		sum += size
	}
	return sum, sum.Check()
}

func (s *OutputSizes) missing(task int, name string) error {
	known := slices.Sorted(maps.Keys(s.byName[task]))
	hint := "it has no outputs"
	if len(known) > 0 {
		if hint = fault.DidYouMean(name, known); hint == "" {
			hint = "it has " + known[0]
			if len(known) > 1 {
				hint += fmt.Sprintf(" and %d more", len(known)-1)
			}
		}
	}
	return fault.New(
		fmt.Sprintf("task %s has no output %s", fault.Quote(s.job.Tasks[task].Name), fault.Quote(name)),
		hint,
	)
}

// MergeEdges sorts the edges by To and then by From, and merges those between the same two tasks: the merged edge has
// the sum of their data and reads all outputs that any of them reads. All edges must refer to tasks of the job.
func (j *Job) MergeEdges() {
	sorted := j.sortedEdges()
	merged := sorted[:0]
	for _, e := range sorted {
		if n := len(merged); n > 0 && merged[n-1].From == e.From && merged[n-1].To == e.To {
			merged[n-1].Data += e.Data
			merged[n-1].Outputs = unionOutputs(merged[n-1].Outputs, e.Outputs)
			merged[n-1].All, merged[n-1].Each = merged[n-1].All && e.All, merged[n-1].Each && e.Each
			continue
		}
		merged = append(merged, e)
	}
	if len(merged) == 0 {
		merged = nil
	}
	j.Edges = slices.Clip(merged)
}

// unionOutputs returns the outputs that are in a or b; nil means all outputs.
func unionOutputs(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	seen := make(map[string]bool, len(a)+len(b))
	either := make([]string, 0, len(a)+len(b))
	for _, name := range slices.Concat(a, b) {
		if !seen[name] {
			seen[name] = true
			either = append(either, name)
		}
	}
	return either
}

// sortedEdges returns the edges sorted by To and then by From, with a stable order of equal edges. It uses two
// counting sorts, linear in tasks and edges.
func (j *Job) sortedEdges() []Edge {
	byFrom := countingSort(j.Edges, len(j.Tasks), func(e *Edge) int { return e.From })
	return countingSort(byFrom, len(j.Tasks), func(e *Edge) int { return e.To })
}

func countingSort(edges []Edge, n int, key func(*Edge) int) []Edge {
	starts := make([]int, n+1)
	for i := range edges {
		starts[key(&edges[i])+1]++
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	sorted := make([]Edge, len(edges))
	for i := range edges {
		k := key(&edges[i])
		sorted[starts[k]] = edges[i]
		starts[k]++
	}
	return sorted
}
