// Package recorded makes jobs of workflows that were recorded or generated elsewhere: tasks without commands, which
// stand in for their run times, and which depend on each other by name and by the files they write and read.
package recorded

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Importer builds the job of a recorded workflow, in which tasks depend on each other by name and
// by the files they write and read.
type Importer struct {
	Job      *dag.Job
	origin   *dag.Origin
	refField func(task string, d Dependency) string

	IDs     []string       // by task
	ByID    map[string]int // tasks by what references call them
	byAlias map[string]int // and by a second name; -1 if several have it
	deps    []Dependency

	Flows *FileFlows
}

// Dependency is one that the file spells out. It may come before the task it names.
type Dependency struct {
	Task  int32  // the one that the reference stands with
	Index int32  // of the reference among those of its task
	Ref   string // the other one
	Child bool   // which is the child, not the parent
	Pos   fault.Position
}

// MaxDepth is how deep JSON and XML may be nested.
const MaxDepth = 64

// NewImporter begins the job of a file. refField is the path to the reference of a dependency, given that of its task.
func NewImporter(name string, format dag.Format, refField func(task string, d Dependency) string) *Importer {
	m := &Importer{
		refField: refField,
		ByID:     map[string]int{},
		byAlias:  map[string]int{},
		Flows:    &FileFlows{index: map[string]int32{}},
	}
	m.Job, m.origin = dag.NewJob(name, format)
	m.origin.Paths = []string{}
	return m
}

// AddTask adds a task that references call id, or alias if no other has that.
func (m *Importer) AddTask(id, alias string, pos fault.Position, path string) (int, error) {
	i := len(m.Job.Tasks)
	if i == dag.MaxTasks {
		return 0, fault.At(pos, fault.OverLimit(fmt.Sprintf("more than %d tasks", dag.MaxTasks), ""))
	}
	if first, ok := m.ByID[id]; ok {
		return 0, fault.At(
			pos,
			fault.New(
				"there are two tasks "+fault.Quote(id),
				fmt.Sprintf("the first is in line %d", m.origin.Tasks[first].Line),
			),
		)
	}
	m.IDs = append(m.IDs, id)
	m.ByID[id] = i
	if alias != "" && alias != id {
		if _, twice := m.byAlias[alias]; twice {
			i = -1
		}
		m.byAlias[alias] = i
	}
	m.Job.Tasks = append(m.Job.Tasks, dag.Task{Name: fullName(id, alias), Nodes: 1, Resources: []dag.Resources{{}}})
	m.origin.Tasks = append(m.origin.Tasks, pos)
	m.origin.Paths = append(m.origin.Paths, path)
	m.Flows.addTask()
	return len(m.Job.Tasks) - 1, nil
}

// fullName says what a task is and which: mProjectPP_ID00000, unless one of the two says both.
func fullName(id, alias string) string {
	switch {
	case alias == "" || strings.Contains(id, alias):
		return id
	case strings.Contains(alias, id):
		return alias
	}
	return alias + "_" + id
}

// Depend notes a dependency.
func (m *Importer) Depend(d Dependency) error {
	if len(m.deps) == 2*dag.MaxEdges { // WfFormat says each twice
		return fault.At(d.Pos, fault.OverLimit(fmt.Sprintf("more than %d dependencies", dag.MaxEdges), ""))
	}
	m.deps = append(m.deps, d)
	return nil
}

// SetRecorded gives a task its recorded run time. One below the clock's resolution becomes the
// shortest there is, so that the task still is a stand-in.
func (m *Importer) SetRecorded(task int, seconds float64) error {
	switch {
	case math.IsNaN(seconds) || seconds < 0:
		return fault.New("a run time cannot be negative", "")
	case seconds > dag.MaxDuration.Seconds():
		return fault.New(dag.FormatNumber(seconds)+" seconds are more than "+dag.FormatDuration(dag.MaxDuration), "")
	}
	d := max(time.Duration(math.Round(seconds*float64(time.Second))), time.Nanosecond)
	m.Job.Tasks[task].Recorded = d
	m.Job.Tasks[task].Time.Default = d
	return nil
}

// Finish resolves references, derives what the files say, and names everything.
func (m *Importer) Finish() error {
	j := m.Job
	explicit, err := m.resolve()
	if err != nil {
		return err
	}
	if task, err := m.Flows.connect(j, explicit); err != nil {
		return m.AtTask(task, err)
	}
	m.Flows.describe(j)
	j.MergeEdges()
	if cycle := j.Cycle(); cycle != nil {
		return m.cycleError(cycle)
	}
	unknown := 0
	names := dag.NewNamer(len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		t.Name = names.Name(t.Name, "task")
		if t.Recorded == 0 {
			t.Recorded = dag.DefaultTime
			unknown++
		}
	}
	if unknown > 0 {
		j.Warn(
			fault.Position{},
			"",
			fmt.Sprintf("%d of %d tasks have no run time: they stand in for %s, which planning takes for unknown",
				unknown, len(j.Tasks), dag.FormatDuration(dag.DefaultTime)),
		)
	}
	return nil
}

// resolve turns the dependencies that are spelled out into edges without data, in order of To.
func (m *Importer) resolve() ([]dag.Edge, error) {
	m.Job.Edges = make([]dag.Edge, len(m.deps))
	for i, d := range m.deps {
		e, ok := m.ends(d)
		if ok && e.From >= 0 && e.To >= 0 {
			m.Job.Edges[i] = e
			continue
		}
		if ok {
			return nil, m.atDependency(
				d,
				fault.New("there are several tasks "+fault.Quote(d.Ref), "refer to them by their ids"),
			)
		}
		return nil, m.atDependency(
			d,
			fault.New(
				"there is no task "+fault.Quote(d.Ref),
				fault.DidYouMean(d.Ref, slices.Sorted(maps.Keys(m.ByID))),
			),
		)
	}
	slices.SortFunc(
		m.Job.Edges,
		func(a, b dag.Edge) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From)) },
	)
	return m.Job.Edges, nil
}

// ends returns the edge of a dependency; an end that several tasks could be is -1.
func (m *Importer) ends(d Dependency) (dag.Edge, bool) {
	other, ok := m.ByID[d.Ref]
	if !ok {
		other, ok = m.byAlias[d.Ref]
	}
	if d.Child {
		return dag.Edge{From: int(d.Task), To: other, Outputs: []string{}}, ok
	}
	return dag.Edge{From: other, To: int(d.Task), Outputs: []string{}}, ok
}

func (m *Importer) atDependency(d Dependency, err error) error {
	return fault.At(d.Pos, fault.Within(m.refField(m.origin.Paths[d.Task], d), err))
}

// AtTask places an error at a task.
func (m *Importer) AtTask(task int, err error) error {
	return fault.At(m.origin.Tasks[task], fault.Within(m.origin.Paths[task], err))
}

// cycleError puts the error about a cycle where the file asks for its last edge, if it spells out
// that one, else at the task that closes it.
func (m *Importer) cycleError(cycle []int) error {
	err := m.Job.CycleError(cycle)
	from, to := cycle[len(cycle)-1], cycle[0]
	for _, d := range m.deps {
		if e, _ := m.ends(d); e.From == from && e.To == to {
			return m.atDependency(d, err)
		}
	}
	return m.AtTask(to, err)
}

// Size is a size given in bytes.
func Size(bytes float64) (dag.GiB, error) {
	g := dag.GiB(bytes / (1 << 30))
	return g, g.Check()
}
