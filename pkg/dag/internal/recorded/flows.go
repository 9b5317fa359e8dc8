package recorded

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// FileFlows derives dependencies from the files that tasks of a recorded workflow write and read.
type FileFlows struct {
	index  map[string]int32
	files  []recordedFile
	reads  [][]int32 // by task: its files, each once
	writes [][]int32

	outside [][]int32 // by task: the files that no task writes; set by connect
	carried [][]int32 // by edge: the files that it carries; set by connect
}

// recordedFile is a file of the workflow.
type recordedFile struct {
	name, URL              string
	size                   dag.GiB
	writers                []int32 // tasks, ascending
	lastReader, lastWriter int32   // 1 + the task
}

// input returns the input for a file that no task writes.
func (f *recordedFile) input() dag.Input {
	in := dag.Input{URI: f.name, Size: f.size}
	switch {
	case f.URL != "":
		in.URI = f.URL
		if jobtext.CheckMountPath(f.name) == nil {
			in.Path = f.name
		}
	case jobtext.CheckURI(f.name) != nil: // a URL with an unsupported scheme
		in.URI = jobtext.ToName(f.name, "file")
	}
	return in
}

func (f *FileFlows) addTask() {
	f.reads, f.writes = append(f.reads, nil), append(f.writes, nil)
}

// File returns the file with a name. It adds the file if it is new.
func (f *FileFlows) File(name string) *recordedFile {
	i, ok := f.index[name]
	if !ok {
		i = int32(len(f.files)) //nolint:gosec // at most MaxFileBytes
		f.index[name] = i
		f.files = append(f.files, recordedFile{name: name})
	}
	return &f.files[i]
}

// SetSize sets the size of a file. If there are several sizes, the largest counts.
func (f *FileFlows) SetSize(name string, size dag.GiB) {
	file := f.File(name)
	file.size = max(file.size, size)
}

// Use records that a task reads or writes a file. Calls must be in the order of tasks.
func (f *FileFlows) Use(task int, name string, written bool) error {
	if err := jobtext.CheckText(name); err != nil {
		return err
	}
	file, t := f.File(name), int32(task) //nolint:gosec // below dag.MaxTasks
	i := f.index[name]
	if written && file.lastWriter != t+1 {
		file.lastWriter = t + 1
		file.writers = append(file.writers, t)
		f.writes[task] = append(f.writes[task], i)
	}
	if !written && file.lastReader != t+1 {
		file.lastReader = t + 1
		f.reads[task] = append(f.reads[task], i)
	}
	return nil
}

// connect sets the edges of j: the explicit ones, which are sorted by To, and those by files. It returns an error
// with its task.
func (f *FileFlows) connect(j *dag.Job, explicit []dag.Edge) (int, error) {
	f.outside, f.carried = make([][]int32, len(j.Tasks)), nil
	j.Edges = nil
	c := fileConnector{flows: f, job: j, edgeOf: make([]int, len(j.Tasks)), parentOf: make([]int32, len(j.Tasks))}
	for to := range j.Tasks {
		c.to, c.first, c.parents = int32(to), len(j.Edges), nil //nolint:gosec // below dag.MaxTasks
		for ; len(explicit) > 0 && explicit[0].To == to; explicit = explicit[1:] {
			c.addParent(int32(explicit[0].From)) //nolint:gosec // below dag.MaxTasks
		}
		if err := c.addWriters(); err != nil {
			return to, err
		}
	}
	return 0, nil
}

// manyWriters is the number of writers of one file above which the importer looks up the parents of a reader among the
// writers, instead of the writers among the parents.
const manyWriters = 256

// fileConnector adds the edges to each task in turn.
type fileConnector struct {
	flows    *FileFlows
	job      *dag.Job
	edgeOf   []int   // by task: 1 + the last edge from it
	parentOf []int32 // by task: 1 + the last task that explicitly waits for it

	to      int32
	first   int     // the index of the first edge to this task
	parents []int32 // its explicit parents, ascending
}

// edge returns the index of the edge from a task to this one. It adds the edge if it is missing.
func (c *fileConnector) edge(from int32) int {
	if c.edgeOf[from] <= c.first {
		c.job.Edges = append(c.job.Edges, dag.Edge{From: int(from), To: int(c.to), Outputs: []string{}})
		c.flows.carried = append(c.flows.carried, nil)
		c.edgeOf[from] = len(c.job.Edges)
	}
	return c.edgeOf[from] - 1
}

func (c *fileConnector) addParent(from int32) {
	c.edge(from)
	if c.parentOf[from] != c.to+1 {
		c.parentOf[from] = c.to + 1
		c.parents = append(c.parents, from)
	}
}

// addWriters adds edges from the writers of the files that this task reads.
func (c *fileConnector) addWriters() error {
	f := c.flows
	for _, file := range f.reads[c.to] {
		writers := f.writersFor(c.to, file, c.parents, c.parentOf)
		if len(writers) == 0 {
			f.outside[c.to] = append(f.outside[c.to], file)
		}
		for _, from := range writers {
			k := c.edge(from)
			c.job.Edges[k].Data += f.files[file].size
			f.carried[k] = append(f.carried[k], file)
		}
		if len(c.job.Edges) > jobtext.MaxEdges {
			break
		}
	}
	if len(c.job.Edges) > jobtext.MaxEdges {
		return fault.OverLimit(fmt.Sprintf("more than %d dependencies", jobtext.MaxEdges), "")
	}
	for _, e := range c.job.Edges[c.first:] {
		if err := e.Data.Check(); err != nil {
			return err
		}
	}
	return nil
}

// writersFor returns the tasks whose versions of a file the task to reads; none if no task writes it. parents are the
// explicit parents of to, ascending; parentOf has the same information by task.
//
// If a file has several writers and some of them are parents, only these count: a workflow that writes a file again
// uses edges to select the version. Otherwise all writers count, except that a task that changes a file in place
// reads it from those before it in the order of the workflow, so that tasks that change a file in turn do not form a
// cycle.
func (f *FileFlows) writersFor(to, file int32, parents, parentOf []int32) []int32 {
	writers := f.files[file].writers
	if len(writers) == 0 || len(writers) == 1 && writers[0] != to {
		return writers
	}
	var meant []int32
	if len(writers) >= manyWriters && len(parents) < len(writers) {
		for _, p := range parents {
			if _, ok := slices.BinarySearch(writers, p); ok && p != to {
				meant = append(meant, p)
			}
		}
	} else {
		for _, w := range writers {
			if parentOf[w] == to+1 && w != to {
				meant = append(meant, w)
			}
		}
	}
	if len(meant) > 0 {
		return meant
	}
	if i, changes := slices.BinarySearch(writers, to); changes {
		return writers[:i]
	}
	return writers
}

// describe sets the inputs and outputs of every task, and the names of the outputs that edges carry.
func (f *FileFlows) describe(j *dag.Job) {
	outputs := make([]map[int32]string, len(j.Tasks)) // by task and file: the name
	for i := range j.Tasks {
		t := &j.Tasks[i]
		for _, file := range f.outside[i] {
			t.Inputs = append(t.Inputs, f.files[file].input())
		}
		names := jobtext.NewNamer(len(f.writes[i]))
		outputs[i] = make(map[int32]string, len(f.writes[i]))
		for _, file := range f.writes[i] {
			name := names.Name(f.files[file].name, "output")
			outputs[i][file] = name
			t.Outputs = append(t.Outputs, dag.Output{Name: name, Size: f.files[file].size})
		}
	}
	for k, files := range f.carried {
		e := &j.Edges[k]
		if len(files) == len(j.Tasks[e.From].Outputs) {
			e.Outputs = nil // all of them
			continue
		}
		for _, file := range files {
			e.Outputs = append(e.Outputs, outputs[e.From][file])
		}
	}
}
