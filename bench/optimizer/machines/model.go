package machines

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// Workflow is a recorded workflow as the tasks and edges of a model. Each task holds one vCPU and 2 GiB.
type Workflow struct {
	Name  string
	Tasks []shared.Task
	Edges []optimizer.Edge
}

// ReadWorkflows reads the recorded workflows whose names contain a text.
func ReadWorkflows(data, only string) ([]Workflow, error) {
	var all []Workflow
	for _, pattern := range []string{"dax/*.xml.gz", "wfformat/*.json.gz"} {
		files, err := filepath.Glob(filepath.Join(data, "workflows", pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			if i := strings.LastIndex(name, "__"); i >= 0 {
				name = name[i+2:]
			}
			if !strings.Contains(name, only) {
				continue
			}
			w, err := readWorkflow(file)
			if err != nil {
				return nil, err
			}
			w.Name = name
			all = append(all, w)
		}
	}
	return all, nil
}

func readWorkflow(file string) (w Workflow, err error) {
	f, err := os.Open(file) //nolint:gosec // found in the folder that the flag names
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return w, err
	}
	job, err := read.Job(strings.TrimSuffix(filepath.Base(file), ".gz"), z)
	if err != nil {
		return w, err
	}
	return fromJob(job), nil
}

func fromJob(job *dag.Job) Workflow {
	w := Workflow{Edges: []optimizer.Edge{}}
	for i := range job.Tasks {
		t := &job.Tasks[i]
		w.Tasks = append(w.Tasks, shared.Task{ID: t.Name, CPUs: 1, MemoryGiB: 2, Hours: t.Recorded.Hours()})
	}
	for _, e := range job.Edges {
		w.Edges = append(w.Edges, optimizer.Edge{
			From: job.Tasks[e.From].Name, To: job.Tasks[e.To].Name, GiB: float64(e.Data),
		})
	}
	return w
}

// CriticalHours is the longest path at speed 1, without moves and boots.
func (w *Workflow) CriticalHours() float64 {
	hours := map[string]float64{}
	for i := range w.Tasks {
		hours[w.Tasks[i].ID] = w.Tasks[i].Hours
	}
	children := map[string][]string{}
	for _, e := range w.Edges {
		children[e.From] = append(children[e.From], e.To)
	}
	memo := map[string]float64{}
	var tail func(string) float64
	tail = func(t string) float64 {
		if x, ok := memo[t]; ok {
			return x
		}
		longest := 0.0
		for _, c := range children[t] {
			longest = max(longest, tail(c))
		}
		memo[t] = hours[t] + longest
		return memo[t]
	}
	longest := 0.0
	for i := range w.Tasks {
		longest = max(longest, tail(w.Tasks[i].ID))
	}
	return longest
}

// Model joins a workflow and offers; a deadline of 0 is none.
func Model(w *Workflow, o *Offers, deadline float64) *shared.Model {
	m := &shared.Model{
		Objective: optimizer.Cost, Places: o.Names, USDPerGiB: o.USDPerGiB, HoursPerGiB: o.HoursPerGiB,
		Machines: o.Machines, Tasks: w.Tasks, Edges: w.Edges,
	}
	if deadline > 0 {
		m.DeadlineHours = &deadline
	}
	return m
}
