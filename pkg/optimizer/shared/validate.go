package shared

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

func modelErrorf(field, format string, args ...any) *optimizer.ModelError {
	return &optimizer.ModelError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// Validate returns the first error in the model as an *optimizer.ModelError, or nil. A model without machines is
// valid: it makes the model infeasible, but not malformed.
func (m *Model) Validate() error {
	if m.Objective != optimizer.Cost && m.Objective != optimizer.Makespan {
		return modelErrorf("objective", "%q is neither %q nor %q, which a model with machines can minimise",
			strict.Clip(string(m.Objective)), optimizer.Cost, optimizer.Makespan)
	}
	if err := cmp.Or(m.checkLimits(), m.checkPlaces(), m.checkMachines()); err != nil {
		return err
	}
	_, err := linkTasks(m)
	return err
}

func (m *Model) checkLimits() error {
	if m.MostInstances < 0 || m.MostInstances > MaxMost {
		return modelErrorf("mostInstances", "%d is not a number of instances from 0 to %d", m.MostInstances, MaxMost)
	}
	for _, b := range []struct {
		field string
		value *float64
	}{{"deadlineHours", m.DeadlineHours}, {"budgetUSD", m.BudgetUSD}} {
		if b.value == nil {
			continue
		}
		if why := badNumber(*b.value); why != "" {
			return modelErrorf(b.field, "%s", why)
		}
	}
	return nil
}

func (m *Model) checkPlaces() error {
	n := len(m.Places)
	if n > text.MaxPlaces {
		return modelErrorf("places", "%d places, more than %d", n, text.MaxPlaces)
	}
	seen := make(map[string]int, n)
	for i, p := range m.Places {
		if p == "" {
			return modelErrorf(indexed("places", i), "is empty")
		}
		if j, dup := seen[p]; dup {
			return modelErrorf(indexed("places", i), "%q is already places[%d]", strict.Clip(p), j)
		}
		seen[p] = i
	}
	return cmp.Or(checkMatrix("usdPerGiB", m.USDPerGiB, n), checkMatrix("hoursPerGiB", m.HoursPerGiB, n))
}

func checkMatrix(name string, rows [][]float64, n int) error {
	if len(rows) != n {
		return modelErrorf(name, "has %d rows for %d places", len(rows), n)
	}
	for i, row := range rows {
		if len(row) != n {
			return modelErrorf(indexed(name, i), "has %d columns for %d places", len(row), n)
		}
		for j, x := range row {
			if why := badNumber(x); why != "" {
				return modelErrorf(indexed(indexed(name, i), j), "%s", why)
			}
		}
	}
	return nil
}

func (m *Model) checkMachines() error {
	if len(m.Machines) > MaxMachines {
		return modelErrorf("machines", "%d machines, more than %d", len(m.Machines), MaxMachines)
	}
	seen := make(map[string]int, len(m.Machines))
	for i := range m.Machines {
		k, name := &m.Machines[i], indexed("machines", i)
		if k.ID == "" {
			return modelErrorf(name+".id", "is empty")
		}
		if j, dup := seen[k.ID]; dup {
			return modelErrorf(name+".id", "%q is already machines[%d]", strict.Clip(k.ID), j)
		}
		seen[k.ID] = i
		if field, why := m.badMachine(k); why != "" {
			return modelErrorf(name+"."+field, "%s", why)
		}
	}
	return nil
}

// minSpeed keeps the hours of a task finite.
const minSpeed = 1e-9

// badMachine returns the first bad field of k and a description of the error, or "".
func (m *Model) badMachine(k *Machine) (field, why string) {
	switch {
	case k.Place < 0 || k.Place >= len(m.Places):
		return "place", fmt.Sprintf("%d is not an index into the %d places", k.Place, len(m.Places))
	case k.Speed == 0:
		return "speed", "is 0"
	case k.Speed > 0 && k.Speed < minSpeed:
		return "speed", fmt.Sprintf("%g is below %g", k.Speed, minSpeed)
	case k.Most < 0 || k.Most > MaxMost:
		return "most", fmt.Sprintf("%d is not a number of instances from 0 to %d", k.Most, MaxMost)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"usdPerHour", k.USDPerHour}, {"cpus", k.CPUs}, {"memoryGiB", k.MemoryGiB}, {"gpus", k.GPUs},
		{"speed", k.Speed}, {"bootHours", k.BootHours}, {"minimumHours", k.MinimumHours},
		{"incrementHours", k.IncrementHours},
	} {
		if why := badNumber(f.value); why != "" {
			return f.name, why
		}
	}
	return "", ""
}

// links are the tasks of a model in a topological order, and its edges by index.
type links struct {
	// order[i] is the index in the model of the i-th task, of[j] the place in the order of task j of the model.
	order, of []int32
	edges     []link
}

type link struct {
	from, to int32
	gib      float64
}

// linkTasks checks tasks and edges and sorts the tasks topologically.
func linkTasks(m *Model) (*links, error) {
	index, err := indexTasks(m)
	if err != nil {
		return nil, err
	}
	if len(m.Edges) > text.MaxEdges {
		return nil, modelErrorf("edges", "%d edges, more than %d", len(m.Edges), text.MaxEdges)
	}
	edges := make([]link, 0, len(m.Edges))
	for i := range m.Edges {
		e, name := &m.Edges[i], indexed("edges", i)
		from, ok := index[e.From]
		if !ok {
			return nil, modelErrorf(name+".from", "no task has the id %q", strict.Clip(e.From))
		}
		to, ok := index[e.To]
		if !ok {
			return nil, modelErrorf(name+".to", "no task has the id %q", strict.Clip(e.To))
		}
		if from == to {
			return nil, modelErrorf(name, "joins %q to itself", strict.Clip(e.From))
		}
		if why := badNumber(e.GiB); why != "" {
			return nil, modelErrorf(name+".gib", "%s", why)
		}
		edges = append(edges, link{from, to, e.GiB})
	}
	return sortTasks(m, edges)
}

func indexTasks(m *Model) (map[string]int32, error) {
	if len(m.Tasks) > text.MaxTasks {
		return nil, modelErrorf("tasks", "%d tasks, more than %d", len(m.Tasks), text.MaxTasks)
	}
	index := make(map[string]int32, len(m.Tasks))
	for i := range m.Tasks {
		t, name := &m.Tasks[i], indexed("tasks", i)
		if t.ID == "" {
			return nil, modelErrorf(name+".id", "is empty")
		}
		if j, dup := index[t.ID]; dup {
			return nil, modelErrorf(name+".id", "%q is already tasks[%d]", strict.Clip(t.ID), j)
		}
		index[t.ID] = int32(i) // #nosec G115 -- at most MaxTasks
		for _, f := range []struct {
			name  string
			value float64
		}{{"cpus", t.CPUs}, {"memoryGiB", t.MemoryGiB}, {"gpus", t.GPUs}, {"hours", t.Hours}} {
			if why := badNumber(f.value); why != "" {
				return nil, modelErrorf(name+"."+f.name, "%s", why)
			}
		}
	}
	return index, nil
}

// sortTasks returns the tasks in a topological order, breadth first and within a level in the order of the model.
func sortTasks(m *Model, edges []link) (*links, error) {
	n := len(m.Tasks)
	l := &links{order: make([]int32, 0, n), of: make([]int32, n), edges: edges}
	out := newFan(n, edges, func(e *link) (int32, int32) { return e.from, e.to })
	open := make([]int32, n)
	for i := range edges {
		open[edges[i].to]++
	}
	for t := range open {
		if open[t] == 0 {
			l.order = append(l.order, int32(t)) // #nosec G115 -- at most MaxTasks
		}
	}
	for i := 0; i < len(l.order); i++ {
		for _, a := range out.of(l.order[i]) {
			if open[a.task]--; open[a.task] == 0 {
				l.order = append(l.order, a.task)
			}
		}
	}
	if len(l.order) < n {
		return nil, modelErrorf("edges", "form a cycle: %s", describeCycle(m, edges, open))
	}
	for i, t := range l.order {
		l.of[t] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	for i := range edges {
		edges[i].from, edges[i].to = l.of[edges[i].from], l.of[edges[i].to]
	}
	return l, nil
}

// describeCycle names the tasks of one cycle among the tasks with open parents, at most five of them.
func describeCycle(m *Model, edges []link, open []int32) string {
	in := newFan(len(open), edges, func(e *link) (int32, int32) { return e.to, e.from })
	t := int32(0)
	for open[t] == 0 {
		t++
	}
	seen := map[int32]int{}
	var path []int32
	for at, again := 0, false; ; {
		if at, again = seen[t]; again {
			path = append(path[at:], t)
			break
		}
		seen[t] = len(path)
		path = append(path, t)
		for _, a := range in.of(t) { // each task with open parents has one of them
			if open[a.task] > 0 {
				t = a.task
				break
			}
		}
	}
	const most = 5
	var names []string
	for i := len(path) - 1; i >= 0; i-- {
		if len(path) > most && len(names) == most-1 && i > 0 {
			names, i = append(names, "…"), 0
		}
		names = append(names, strict.Clip(m.Tasks[path[i]].ID))
	}
	return strings.Join(names, " → ")
}

// badNumber describes why x is not a quantity from 0 to optimizer.MaxValue; it returns "" if it is.
func badNumber(x float64) string {
	switch {
	case math.IsNaN(x):
		return "is not a number"
	case math.IsInf(x, 0):
		return "is infinite"
	case x < 0:
		return fmt.Sprintf("%g is negative", x)
	case x > optimizer.MaxValue:
		return fmt.Sprintf("%g is over %g", x, float64(optimizer.MaxValue))
	}
	return ""
}
