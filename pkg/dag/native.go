package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// APIVersion is what apiVersion must say in the native form.
const APIVersion = "tradewind/v1"

// parseYAML reads a YAML file as what it is.
func parseYAML(name string, data []byte) (*Job, error) {
	docs, err := decodeYAML(data)
	if err != nil {
		return nil, err
	}
	switch first := docs.roots[0]; {
	case first.Kind != yaml.MappingNode:
		return nil, at(positionOf(first), fault("is "+describe(first)+", not a job", "a job is a mapping: apiVersion, name, tasks"))
	case looksNative(first):
		return readNative(name, docs)
	case looksSkyPilot(first):
		return readSkyPilot(name, docs)
	default:
		return nil, at(positionOf(first), fault("is in none of the forms that Tradewind reads",
			"begin a job with apiVersion: "+APIVersion+"; SkyPilot YAML, WfFormat JSON and Pegasus DAX are read too"))
	}
}

// looksNative says whether a document means to be in the native form: a misspelled apiVersion, or
// tasks without one, get the native reader's errors.
func looksNative(doc *yaml.Node) bool {
	for i := 0; i+1 < len(doc.Content); i += 2 {
		key := doc.Content[i].Value
		if key == "tasks" || nearest(key, []string{"apiVersion"}) != "" {
			return true
		}
	}
	return false
}

func parseNative(name string, data []byte) (*Job, error) {
	docs, err := decodeYAML(data)
	if err != nil {
		return nil, err
	}
	return readNative(name, docs)
}

// nativeReader reads the one document of a native file.
type nativeReader struct {
	yamlReader
	job   *Job
	index map[string]int // of tasks by name

	env      map[string]string // of the job, under that of each task
	defaults Task
	tasks    *yaml.Node

	jobFields      fields[*Job]
	taskFields     fields[*Task]
	defaultFields  fields[*Task]
	resourceFields fields[*Resources]
	outputFields   fields[*Output]
	inputFields    fields[*nativeInput]
	afterFields    fields[*nativeAfter]

	current int              // the task being read
	links   []link           // parallel to job.Edges
	edgeOf  []int32          // by task: the last edge from it, valid if it leads to current
	marks   []mark           // of the alternatives being read
	gangs   map[int]position // by task: where its gang is named
	taken   map[taken]bool   // the outputs that inputs of current take
}

func readNative(name string, docs yamlDocs) (*Job, error) {
	r := &nativeReader{
		yamlReader: yamlReader{file: name, visits: docs.visits},
		job: &Job{Name: nameFromFile(name), Objective: MinimizeCost, Infeasible: Fail, Format: Native,
			origin: &origin{file: name}},
		defaults: Task{Nodes: 1},
		taken:    make(map[taken]bool),
	}
	r.jobFields, r.taskFields, r.defaultFields = r.forJob(), r.forTask(), r.forDefaults()
	r.resourceFields, r.outputFields = r.forResources(), r.forOutput()
	r.inputFields, r.afterFields = r.forInput(), r.forAfter()
	if len(docs.roots) > 1 {
		return nil, r.fault(docs.roots[1], "there is a second document", "a native file holds one job; SkyPilot chains have no apiVersion")
	}
	if err := r.read(docs.roots[0]); err != nil {
		return nil, err
	}
	return r.job, nil
}

func (r *nativeReader) read(doc *yaml.Node) error {
	entries, err := r.mapping(doc)
	if err != nil {
		return err
	}
	// Of a file for something else, or for a version to come, apiVersion is what is wrong.
	for _, e := range entries {
		if e.key == "apiVersion" {
			if err := withinKey(e.key, r.readVersion(e.node)); err != nil {
				return err
			}
		}
	}
	if err := readFields(&r.yamlReader, doc, r.jobFields, r.job); err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.key == "apiVersion" }) {
		return within("apiVersion", r.fault(doc, "is missing", "add apiVersion: "+APIVersion))
	}
	if r.tasks == nil {
		return within("tasks", r.fault(doc, "is missing", "a job has at least one task"))
	}
	if err := within("tasks", r.readTasks(r.tasks)); err != nil {
		return err
	}
	return r.finish()
}

func (r *nativeReader) readVersion(n *yaml.Node) error {
	s, err := r.text(n)
	if err != nil {
		return err
	}
	if s != APIVersion {
		return r.fault(n, quote(s)+" is not a version that is read here", "write "+APIVersion)
	}
	return nil
}

func (r *nativeReader) forJob() fields[*Job] {
	y := &r.yamlReader
	return fields[*Job]{
		"apiVersion":  func(*Job, *yaml.Node) error { return nil }, // read before the others
		"name":        textField(y, func(j *Job) *string { return &j.Name }, checked(checkName)),
		"description": textField(y, func(j *Job) *string { return &j.Description }, checked(checkDescription)),
		"objective": textField(y, func(j *Job) *Objective { return &j.Objective }, func(s string) (Objective, error) {
			return Objective(s), checkChoice("objective", Objective(s), objectives())
		}),
		"deadline": textField(y, func(j *Job) *time.Duration { return &j.Deadline }, parseDuration),
		"budget":   textField(y, func(j *Job) *USD { return &j.Budget }, parseBudget),
		"queue":    textField(y, func(j *Job) *string { return &j.Queue }, checked(checkName)),
		"priority": textField(y, func(j *Job) *int { return &j.Priority }, func(s string) (int, error) {
			return parseInt(s, -MaxPriority, MaxPriority)
		}),
		"infeasible": textField(y, func(j *Job) *Infeasible { return &j.Infeasible }, func(s string) (Infeasible, error) {
			return Infeasible(s), checkChoice("choice", Infeasible(s), infeasibles())
		}),
		"regions": func(j *Job, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error {
				s, err := r.text(n)
				if err == nil {
					err = checkPlace(s)
				}
				j.Regions = append(j.Regions, s)
				return err
			})
		},
		"env": func(_ *Job, n *yaml.Node) (err error) {
			r.env, err = r.readEnv(n)
			return err
		},
		"defaults": func(_ *Job, n *yaml.Node) error { return readFields(y, n, r.defaultFields, &r.defaults) },
		"tasks": func(_ *Job, n *yaml.Node) error {
			r.tasks = n // read last, when env and defaults are known
			return nil
		},
	}
}

func (r *nativeReader) readTasks(n *yaml.Node) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	switch {
	case len(entries) == 0:
		return r.fault(n, "is empty", "a job has at least one task")
	case len(entries) > MaxTasks:
		return at(positionOf(n), overLimit(fmt.Sprintf("%d tasks, more than %d", len(entries), MaxTasks), ""))
	}
	r.index = make(map[string]int, len(entries))
	r.edgeOf = make([]int32, len(entries))
	r.job.Tasks = make([]Task, len(entries))
	r.job.origin.tasks = make([]position, len(entries))
	for i, e := range entries {
		if err := checkName(e.key); err != nil {
			return withinKey(e.key, at(positionOf(e.name), err))
		}
		r.index[e.key] = i
		r.job.origin.tasks[i] = positionOf(e.name)
	}
	for i, e := range entries {
		if err := withinKey(e.key, r.readTask(i, e)); err != nil {
			return err
		}
	}
	return nil
}

func (r *nativeReader) readTask(i int, e entry) error {
	t := &r.job.Tasks[i]
	*t = r.defaults.copied()
	t.Name = e.key
	r.current, r.marks = i, nil
	clear(r.taken)
	if err := readFields(&r.yamlReader, e.node, r.taskFields, t); err != nil {
		return err
	}
	if len(t.Resources) == 0 {
		t.Resources = []Resources{{}}
	}
	for _, m := range r.marks {
		m.task = int32(i) //nolint:gosec // below MaxTasks
		r.job.origin.marks = append(r.job.origin.marks, m)
	}
	t.Env = overlay(r.env, t.Env)
	if err := checkTask(t); err != nil {
		return at(positionOf(e.name), err)
	}
	return nil
}

// copied is a copy that shares nothing which can be changed.
func (t Task) copied() Task {
	t.Resources = slices.Clone(t.Resources)
	t.Time.On = maps.Clone(t.Time.On)
	if t.Checkpoint != nil {
		c := *t.Checkpoint
		t.Checkpoint = &c
	}
	return t
}

// overlay is the environment of a task: the job's, shared if the task has none of its own.
func overlay(under, over map[string]string) map[string]string {
	if len(over) == 0 {
		return under
	}
	if len(under) == 0 {
		return over
	}
	both := maps.Clone(under)
	maps.Copy(both, over)
	return both
}

// readEnv reads variables. Their values are text however they look to YAML.
func (r *nativeReader) readEnv(n *yaml.Node) (map[string]string, error) {
	entries, err := r.mapping(n)
	if err != nil {
		return nil, err
	}
	env := make(map[string]string, len(entries))
	for _, e := range entries {
		if err := checkEnvName(e.key); err != nil {
			return nil, withinKey(e.key, at(positionOf(e.name), err))
		}
		if env[e.key], err = r.text(e.node); err != nil {
			return nil, withinKey(e.key, err)
		}
	}
	if len(env) == 0 {
		return nil, nil
	}
	return env, nil
}

// finish fills in what edges carry, and checks the graph.
func (r *nativeReader) finish() error {
	j := r.job
	sizes := newOutputSizes(j)
	for i := range j.Edges {
		e := &j.Edges[i]
		data, err := sizes.of(e.From, e.Outputs)
		if err != nil {
			return r.linkError(i, err)
		}
		if !r.links[i].explicit {
			e.Data = data
		}
	}
	if cycle := j.cycle(); cycle != nil {
		i := slices.IndexFunc(j.Edges, func(e Edge) bool { return e.From == cycle[len(cycle)-1] && e.To == cycle[0] })
		return r.linkError(i, j.cycleError(cycle))
	}
	j.MergeEdges()
	if i, err := j.checkGangs(); i >= 0 {
		return at(r.gangs[i], within(taskPath(j.Tasks[i].Name), within("gang", err)))
	}
	return nil
}

// linkError puts an error at the place where the file asks for edge i.
func (r *nativeReader) linkError(i int, err error) error {
	l := r.links[i]
	field := "after"
	if l.isInput {
		field = "inputs"
	}
	err = within(taskPath(r.job.Tasks[r.job.Edges[i].To].Name), within(field+index(int(l.index)), err))
	return at(l.pos, err)
}

func checkDescription(s string) error {
	if len(s) > MaxTextBytes {
		return overLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	return checkString(s)
}

// sortedKeys returns the keys of a map in byte order.
func sortedKeys[M ~map[string]V, V any](m M) []string {
	return slices.SortedFunc(maps.Keys(m), strings.Compare)
}
