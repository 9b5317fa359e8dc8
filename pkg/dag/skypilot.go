package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// notActedOn is the warning about a field that SkyPilot has and Tradewind does not need or have.
const notActedOn = "is read but not acted on"

// skyReader reads the documents of a SkyPilot file.
type skyReader struct {
	yamlReader
	job       *Job
	names     *namer
	parallel  bool // tasks are a group, not a chain
	resources skyResourceFields
	task      fields[*skyTask]
	storage   fields[*skyStorage]
}

// skyTask is a document being read. What needs all of its fields is kept as nodes until they are.
type skyTask struct {
	Task
	at       *yaml.Node
	workdir  *yaml.Node
	mounts   *yaml.Node
	inputs   *yaml.Node
	outputs  *yaml.Node
	priority int
	marks    []mark
	unset    map[string]bool // variables without a value
}

func parseSkyPilot(name string, data []byte) (*Job, error) {
	docs, err := decodeYAML(data)
	if err != nil {
		return nil, err
	}
	return readSkyPilot(name, docs)
}

func newSkyReader(name string, visits int) *skyReader {
	r := &skyReader{
		yamlReader: yamlReader{file: name, visits: visits},
		job: &Job{Name: nameFromFile(name), Objective: MinimizeCost, Infeasible: Fail, Format: SkyPilot,
			origin: &origin{file: name}},
		names: newNamer(0),
	}
	r.task, r.storage, r.resources = r.forTask(), r.forStorage(), r.forResources()
	return r
}

// looksSkyPilot says whether a document has a field of a SkyPilot task.
func looksSkyPilot(doc *yaml.Node) bool {
	known := newSkyReader("", 0).task
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if _, ok := known[doc.Content[i].Value]; ok {
			return true
		}
	}
	return false
}

func readSkyPilot(name string, file yamlDocs) (*Job, error) {
	r, docs := newSkyReader(name, file.visits), file.roots
	named, err := r.readHeader(docs[0])
	if err != nil {
		return nil, err
	}
	if named {
		docs = docs[1:]
	}
	switch {
	case len(docs) == 0:
		return nil, at(position{1, 1}, fault("has a name and no tasks", "write each task as a document of its own, after a line ---"))
	case len(docs) > MaxTasks:
		return nil, overLimit(fmt.Sprintf("%d tasks, more than %d", len(docs), MaxTasks), "")
	}
	for i, doc := range docs {
		if err := r.readTask(i, doc, !named && len(docs) == 1); err != nil {
			return nil, err
		}
	}
	return r.job, r.chain()
}

// readHeader reads a first document that holds a name and no task. Newer files may say there that
// the tasks are a group that runs in parallel.
func (r *skyReader) readHeader(doc *yaml.Node) (bool, error) {
	header := fields[*Job]{
		"name": func(j *Job, n *yaml.Node) error {
			s, err := r.text(n)
			j.Name = toName(s, j.Name)
			return err
		},
		"execution": func(_ *Job, n *yaml.Node) error {
			s, err := r.text(n)
			if err != nil {
				return err
			}
			r.parallel = s == "parallel"
			return checkChoice("execution", s, []string{"serial", "parallel"})
		},
		"primary_tasks":     r.ignoredOfJob("primary_tasks"),
		"termination_delay": r.ignoredOfJob("termination_delay"),
	}
	entries, err := r.mapping(doc)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if _, ok := header[e.key]; !ok {
			return false, nil
		}
	}
	return len(entries) > 0, readFields(&r.yamlReader, doc, header, r.job)
}

func (r *skyReader) ignoredOfJob(field string) func(*Job, *yaml.Node) error {
	return func(j *Job, n *yaml.Node) error {
		j.warn(r.file, positionOf(n), field, notActedOn)
		return nil
	}
}

// ignored reads a field that has no counterpart.
func (r *skyReader) ignored(field, why string) func(*skyTask, *yaml.Node) error {
	return func(_ *skyTask, n *yaml.Node) error {
		if !isNull(n) {
			r.job.warn(r.file, positionOf(n), field, why)
		}
		return nil
	}
}

func (r *skyReader) forTask() fields[*skyTask] {
	y := &r.yamlReader
	later := func(to func(*skyTask) **yaml.Node) func(*skyTask, *yaml.Node) error {
		return func(t *skyTask, n *yaml.Node) error {
			*to(t) = n
			return nil
		}
	}
	known := fields[*skyTask]{
		"name":  textField(y, func(t *skyTask) *string { return &t.Name }, checked(checkText)),
		"setup": textField(y, func(t *skyTask) *string { return &t.Setup }, checked(checkScript)),
		"run":   textField(y, func(t *skyTask) *string { return &t.Run }, checked(checkScript)),
		"num_nodes": textField(y, func(t *skyTask) *int { return &t.Nodes }, func(s string) (int, error) {
			return parseInt(s, 1, MaxNodes)
		}),
		"envs":        func(t *skyTask, n *yaml.Node) error { return r.readEnvs(t, n, false) },
		"secrets":     func(t *skyTask, n *yaml.Node) error { return r.readEnvs(t, n, true) },
		"resources":   func(t *skyTask, n *yaml.Node) error { return r.readResources(t, n) },
		"workdir":     later(func(t *skyTask) **yaml.Node { return &t.workdir }),
		"file_mounts": later(func(t *skyTask) **yaml.Node { return &t.mounts }),
		"inputs":      later(func(t *skyTask) **yaml.Node { return &t.inputs }),
		"outputs":     later(func(t *skyTask) **yaml.Node { return &t.outputs }),
		"service":     r.ignored("service", "is not acted on: the task runs as a batch task, until its script ends"),
	}
	for _, field := range []string{"event_callback", "pool", "managed_secrets", "file_mounts_mapping", "config", "volumes",
		"volume_mounts", "api_server_access", "experimental", "user_data"} {
		known[field] = r.ignored(field, notActedOn)
	}
	// Without a value, a field is as if it were not there.
	for field, read := range known {
		known[field] = func(t *skyTask, n *yaml.Node) error {
			if isNull(n) {
				return nil
			}
			return read(t, n)
		}
	}
	return known
}

// readTask reads a document. A task alone may give the job its name.
func (r *skyReader) readTask(i int, doc *yaml.Node, alone bool) error {
	t := &skyTask{Task: Task{Nodes: 1}, at: doc, unset: map[string]bool{}}
	if err := r.readKnown(doc, t); err != nil {
		return err
	}
	if t.Resources == nil {
		t.Resources = []Resources{skyDefaults(skyChoice{})}
	}
	if err := r.readData(t); err != nil {
		return err
	}
	switch {
	case alone && t.Name != "":
		r.job.Name = toName(t.Name, r.job.Name)
		t.Name = r.job.Name
	case t.Name == "" && alone:
		t.Name = r.job.Name
	case t.Name == "":
		t.Name = fmt.Sprintf("%s-%d", r.job.Name, i)
	}
	t.Name = r.names.name(t.Name, "task")
	if err := checkTask(&t.Task); err != nil {
		return at(positionOf(doc), err)
	}
	o := r.job.origin
	for _, m := range t.marks {
		m.task = int32(i) //nolint:gosec // below MaxTasks
		o.marks = append(o.marks, m)
	}
	o.tasks = append(o.tasks, positionOf(doc))
	o.paths = append(o.paths, "")
	r.job.Tasks = append(r.job.Tasks, t.Task)
	r.job.Priority = max(r.job.Priority, t.priority)
	return nil
}

// readKnown is readFields that passes over the fields SkyPilot keeps for itself.
func (r *skyReader) readKnown(doc *yaml.Node, t *skyTask) error {
	entries, err := r.mapping(doc)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.key, "_") {
			continue
		}
		read, ok := r.task[e.key]
		if !ok {
			return withinKey(e.key, r.unknown(e, r.task.names()))
		}
		if err := read(t, e.node); err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
	}
	return nil
}

// readEnvs reads envs or secrets. SkyPilot wants values that are missing on its command line.
func (r *skyReader) readEnvs(t *skyTask, n *yaml.Node, secret bool) error {
	field := "envs"
	if secret {
		field = "secrets"
	}
	if secret && n.Kind == yaml.SequenceNode {
		r.job.warn(r.file, positionOf(n), field, "names secrets that SkyPilot keeps, which are not set here")
		return nil
	}
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	env := make(map[string]string, len(entries))
	for _, e := range entries {
		if isNull(e.node) {
			t.unset[e.key] = true
			r.job.warn(r.file, positionOf(e.name), field+"."+e.key, "has no value and is not set")
			continue
		}
		if err := checkEnvName(e.key); err != nil {
			return withinKey(e.key, at(positionOf(e.name), err))
		}
		if env[e.key], err = r.text(e.node); err != nil {
			return withinKey(e.key, err)
		}
	}
	if secret {
		t.Secrets = sortedKeys(env)
	} else { // a secret of the same name hides it, in whichever order they stand
		maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(t.Secrets, name) })
	}
	t.Env = overlay(t.Env, env)
	if len(t.Env) == 0 {
		t.Env = nil
	}
	if len(t.Secrets) == 0 {
		t.Secrets = nil
	}
	return nil
}

// readData reads what names files and buckets, in which variables stand for their values.
func (r *skyReader) readData(t *skyTask) error {
	if n := t.workdir; n != nil {
		if n.Kind == yaml.MappingNode {
			r.job.warn(r.file, positionOf(n), "workdir", "a git repository is not staged: clone it in setup")
		} else if err := within("workdir", r.readWorkdir(t, n)); err != nil {
			return err
		}
	}
	if t.mounts != nil {
		if err := within("file_mounts", r.readMounts(t, t.mounts)); err != nil {
			return err
		}
	}
	if t.inputs != nil {
		if err := within("inputs", r.readEstimates(t, t.inputs, r.addEstimate)); err != nil {
			return err
		}
	}
	if t.outputs != nil {
		outputs := newNamer(0)
		return within("outputs", r.readEstimates(t, t.outputs, func(t *skyTask, what string, size GiB) error {
			o := Output{Name: outputs.name(lastElement(what), "output"), Size: size}
			if strings.Contains(what, "://") {
				o.URI = what
			}
			t.Outputs = append(t.Outputs, o)
			return o.validate()
		}))
	}
	return nil
}

func (r *skyReader) readWorkdir(t *skyTask, n *yaml.Node) error {
	s, err := r.text(n)
	if err != nil {
		return err
	}
	t.Workdir = r.expand(t, n, "workdir", s)
	return at(positionOf(n), checkURI(t.Workdir))
}

// readEstimates reads what a task reads or writes, with sizes in GiB.
func (r *skyReader) readEstimates(t *skyTask, n *yaml.Node, add func(*skyTask, string, GiB) error) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		s, err := r.text(e.node)
		if err != nil {
			return withinKey(e.key, err)
		}
		size, err := parseSize(s)
		if err == nil {
			err = add(t, e.key, size)
		}
		if err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
	}
	return nil
}

// addEstimate notes the size of data that a task reads. SkyPilot does not stage it: where no mount
// has it already it is only mounted, so that nothing is copied which the script reads by itself.
func (r *skyReader) addEstimate(t *skyTask, uri string, size GiB) error {
	for i := range t.Inputs {
		if strings.TrimRight(t.Inputs[i].URI, "/") == strings.TrimRight(uri, "/") {
			t.Inputs[i].Size = size
			return nil
		}
	}
	t.Inputs = append(t.Inputs, Input{URI: uri, Size: size, Mount: true})
	return checkURI(uri)
}

// chain makes each task wait for the one before, and read what it leaves.
func (r *skyReader) chain() error {
	j := r.job
	if r.parallel {
		return nil
	}
	sizes := newOutputSizes(j)
	for i := 1; i < len(j.Tasks); i++ {
		data, err := sizes.of(i-1, nil)
		if err != nil {
			return j.atTask(i-1, within("outputs", err))
		}
		j.Edges = append(j.Edges, Edge{From: i - 1, To: i, Data: data})
	}
	return nil
}
