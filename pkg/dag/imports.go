package dag

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// importer builds the job of a recorded workflow, in which tasks depend on each other by name and
// by the files they write and read.
type importer struct {
	file string
	job  *Job
	// refField is the path to the reference of a dependency, given that of its task.
	refField func(task string, d dependency) string

	ids     []string       // by task
	byID    map[string]int // tasks by what references call them
	byAlias map[string]int // and by a second name; -1 if several have it
	deps    []dependency

	flows *fileFlows
}

// dependency is one that the file spells out. It may come before the task it names.
type dependency struct {
	task  int32  // the one that the reference stands with
	index int32  // of the reference among those of its task
	ref   string // the other one
	child bool   // which is the child, not the parent
	pos   position
}

func newImporter(name string, format Format, refField func(string, dependency) string) *importer {
	return &importer{
		file: name,
		job: &Job{Name: nameFromFile(name), Objective: MinimizeCost, Infeasible: Fail, Format: format,
			origin: &origin{file: name, paths: []string{}}},
		refField: refField,
		byID:     map[string]int{},
		byAlias:  map[string]int{},
		flows:    newFileFlows(),
	}
}

// addTask adds a task that references call id, or alias if no other has that.
func (m *importer) addTask(id, alias string, pos position, path string) (int, error) {
	i := len(m.job.Tasks)
	if i == MaxTasks {
		return 0, at(pos, overLimit(fmt.Sprintf("more than %d tasks", MaxTasks), ""))
	}
	if first, ok := m.byID[id]; ok {
		return 0, at(pos, fault("there are two tasks "+quote(id), fmt.Sprintf("the first is in line %d", m.job.origin.tasks[first].line)))
	}
	m.ids = append(m.ids, id)
	m.byID[id] = i
	if alias != "" && alias != id {
		if _, twice := m.byAlias[alias]; twice {
			i = -1
		}
		m.byAlias[alias] = i
	}
	m.job.Tasks = append(m.job.Tasks, Task{Name: fullName(id, alias), Nodes: 1, Resources: []Resources{{}}})
	m.job.origin.tasks = append(m.job.origin.tasks, pos)
	m.job.origin.paths = append(m.job.origin.paths, path)
	m.flows.addTask()
	return len(m.job.Tasks) - 1, nil
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

// depend notes a dependency.
func (m *importer) depend(d dependency) error {
	if len(m.deps) == 2*MaxEdges { // WfFormat says each twice
		return at(d.pos, overLimit(fmt.Sprintf("more than %d dependencies", MaxEdges), ""))
	}
	m.deps = append(m.deps, d)
	return nil
}

// setRecorded gives a task its recorded run time. One below the clock's resolution becomes the
// shortest there is, so that the task still is a stand-in.
func (m *importer) setRecorded(task int, seconds float64) error {
	switch {
	case math.IsNaN(seconds) || seconds < 0:
		return fault("a run time cannot be negative", "")
	case seconds > MaxDuration.Seconds():
		return fault(formatNumber(seconds)+" seconds are more than "+formatDuration(MaxDuration), "")
	}
	d := max(time.Duration(math.Round(seconds*float64(time.Second))), time.Nanosecond)
	m.job.Tasks[task].Recorded = d
	m.job.Tasks[task].Time.Default = d
	return nil
}

// finish resolves references, derives what the files say, and names everything.
func (m *importer) finish() (*Job, error) {
	j := m.job
	explicit, err := m.resolve()
	if err != nil {
		return nil, err
	}
	if task, err := m.flows.connect(j, explicit); err != nil {
		return nil, m.atTask(task, err)
	}
	m.flows.describe(j)
	j.MergeEdges()
	if cycle := j.cycle(); cycle != nil {
		return nil, m.cycleError(cycle)
	}
	unknown := 0
	names := newNamer(len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		t.Name = names.name(t.Name, "task")
		if t.Recorded == 0 {
			t.Recorded = DefaultTime
			unknown++
		}
	}
	if unknown > 0 {
		j.warn(m.file, position{}, "", fmt.Sprintf("%d of %d tasks have no run time: they stand in for %s, which planning takes for unknown",
			unknown, len(j.Tasks), formatDuration(DefaultTime)))
	}
	return j, nil
}

// resolve turns the dependencies that are spelled out into edges without data, in order of To.
func (m *importer) resolve() ([]Edge, error) {
	m.job.Edges = make([]Edge, len(m.deps))
	for i, d := range m.deps {
		e, ok := m.ends(d)
		if ok && e.From >= 0 && e.To >= 0 {
			m.job.Edges[i] = e
			continue
		}
		if ok {
			return nil, m.atDependency(d, fault("there are several tasks "+quote(d.ref), "refer to them by their ids"))
		}
		return nil, m.atDependency(d, fault("there is no task "+quote(d.ref), didYouMean(d.ref, sortedKeys(m.byID))))
	}
	return m.job.sortedEdges(), nil
}

// ends returns the edge of a dependency; an end that several tasks could be is -1.
func (m *importer) ends(d dependency) (Edge, bool) {
	other, ok := m.byID[d.ref]
	if !ok {
		other, ok = m.byAlias[d.ref]
	}
	if d.child {
		return Edge{From: int(d.task), To: other, Outputs: []string{}}, ok
	}
	return Edge{From: other, To: int(d.task), Outputs: []string{}}, ok
}

func (m *importer) atDependency(d dependency, err error) error {
	return at(d.pos, within(m.refField(m.job.origin.paths[d.task], d), err))
}

func (m *importer) atTask(task int, err error) error {
	return at(m.job.origin.tasks[task], within(m.job.origin.paths[task], err))
}

// cycleError puts the error about a cycle where the file asks for its last edge, if it spells out
// that one, else at the task that closes it.
func (m *importer) cycleError(cycle []int) error {
	err := m.job.cycleError(cycle)
	from, to := cycle[len(cycle)-1], cycle[0]
	for _, d := range m.deps {
		if e, _ := m.ends(d); e.From == from && e.To == to {
			return m.atDependency(d, err)
		}
	}
	return m.atTask(to, err)
}
