// Package native reads and writes jobs in Tradewind's own format: YAML, or JSON, with apiVersion tradewind/v1.
// [Schema] describes it for editors.
package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// IsNative reports whether a document is intended to have the native format. Documents with a misspelled apiVersion,
// or with tasks but no apiVersion, count too, so that they get the errors of this reader.
func IsNative(doc *yaml.Node) bool {
	for i := 0; i < len(doc.Content); i += 2 {
		key := doc.Content[i].Value
		if key == "tasks" || fault.Nearest(key, []string{"apiVersion"}) != "" {
			return true
		}
	}
	return false
}

// Parse reads a file in the native format. data is the unpacked text. See [Schema] for the fields.
func Parse(name string, data []byte) (*dag.Job, error) {
	docs, from, err := yamlfile.Decode(data)
	if err != nil {
		return dag.CheckJob(name, nil, err)
	}
	return FromYAML(name, docs, from)
}

// reader reads a native file, which has one document.
type reader struct {
	yamlfile.Reader
	job    *dag.Job
	origin *dag.Origin
	index  map[string]int   // tasks by name
	failAt *yaml.Node       // onFailure of the job
	gang   map[string][]int // the tasks of the roles, by the name of the task that has the roles
	parts  []taskPart       // by task

	unread  map[string]bool  // the names of tasks with faults that prevent reading them
	members map[string][]int // tasks by their name and by that of their gang or service; see named

	env      map[string]string // of the job; variables of tasks override it
	secrets  []secretPosition  // of the job, for every task
	defaults dag.Task
	tasks    *yaml.Node
	labels   map[string]string // of the job; labels of tasks override them
	rules    *yaml.Node        // placement of the job
	ruled    []rulePosition    // parallel to job.Placement

	jobFields      yamlfile.Fields[*dag.Job]
	taskFields     yamlfile.Fields[*dag.Task]
	roleFields     yamlfile.Fields[*dag.Task]
	defaultFields  yamlfile.Fields[*dag.Task]
	resourceFields yamlfile.Fields[*dag.Resources]
	outputFields   yamlfile.Fields[*dag.Output]
	inputFields    yamlfile.Fields[*nativeInput]
	afterFields    yamlfile.Fields[*nativeAfter]

	current int        // the task being read
	links   []link     // parallel to job.Edges
	edgeOf  []int32    // by task: the last edge from it, valid if it goes to current
	marks   []dag.Mark // of the alternatives being read
	// the marks of those alternatives that are services
	serviceMarks []dag.Mark
	spark        *yaml.Node // the spark of the current task, and the executors
	executors    *yaml.Node
	files        []dag.Mark // of the workdir and inputs of the task being read
	shares       *yaml.Node // the share of the current task, if it is true there
	// whether the current task has the field share, and whether defaults has it
	saysShare, defaultsSayShare bool
	// the fields time and nodes of the current task, and those of defaults
	time, defaultTime, nodes, defaultNodes *yaml.Node
	objective, weights                     *yaml.Node // of the job
	// the tasks for which the file does not set share
	silent map[int]bool

	gangs   map[int]fault.Position // by task: where the file names its gang, or the gang it joins
	inputs  []link                 // of current, parallel to its inputs
	outputs []fault.Position       // of current, parallel to its outputs
	marked  int                    // the number of marks of current
	taken   map[readOutput]bool    // the outputs that inputs of current read
}

// FromYAML is Parse for a file that is already decoded.
func FromYAML(name string, docs []*yaml.Node, from yamlfile.Reader) (*dag.Job, error) {
	r := &reader{
		Reader: from, defaults: dag.Task{Nodes: 1}, taken: map[readOutput]bool{}, gangs: map[int]fault.Position{},
		unread: map[string]bool{}, silent: map[int]bool{},
	}
	r.job, r.origin = dag.NewJob(name, dag.Native)
	r.jobFields, r.taskFields, r.defaultFields = r.forJob(), r.forTask(), r.forDefaults()
	r.roleFields = r.forRole()
	r.resourceFields, r.outputFields = r.forResources(), r.forOutput()
	r.inputFields, r.afterFields = r.forInput(), r.forAfter()
	err := r.read(docs[0])
	if len(docs) > 1 {
		err = r.Fault(docs[1], "there is a second document",
			"a native file has one job; SkyPilot chains have no apiVersion")
	}
	if err == nil {
		r.job.ShareMany(dag.ShareTogether, func(task int) bool { return !r.silent[task] })
	}
	return dag.CheckJob(name, r.job, err)
}

func (r *reader) read(doc *yaml.Node) error {
	entries, err := r.Mapping(doc)
	if err != nil {
		return err
	}
	// Check apiVersion first: in a file of another kind or of a future version, that is the fault to report.
	for _, e := range entries {
		if e.Key == "apiVersion" {
			if err := fault.WithinKey(e.Key, r.readVersion(e.Node)); err != nil {
				return err
			}
		}
	}
	var all fault.Faults
	read := all.Add(yamlfile.ReadFieldsOr(&r.Reader, doc, r.jobFields, r.job, r.unknownInJob))
	if all.None() {
		read = all.Add(r.checkWeights())
	}
	for _, e := range entries {
		if e.Key == "patience" && all.None() { // it depends on another field, infeasible
			read = all.Add(fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), r.job.CheckPatience())))
		}
	}
	if all.None() && !slices.ContainsFunc(entries, func(e yamlfile.Entry) bool { return e.Key == "apiVersion" }) {
		all.Add(fault.Within("apiVersion", r.Fault(doc, "is missing", "add apiVersion: "+dag.APIVersion)))
	}
	if all.None() && r.tasks == nil {
		all.Add(fault.Within("tasks", r.Fault(doc, "is missing", "a job has at least one task")))
	}
	if read && r.tasks != nil {
		all.Add(fault.Within("tasks", r.readTasks(r.tasks)))
	}
	if !all.None() {
		all.Add(r.checkCycle())
		return all.Err()
	}
	return r.checkGraph(doc)
}

// unknownInJob returns the error for an unknown field of the job, which may be a field of its tasks.
func (r *reader) unknownInJob(e yamlfile.Entry) error {
	if _, ofMachine := r.resourceFields[e.Key]; ofMachine {
		return r.Fault(e.Name, "is a field of resources, not of the job",
			"write it below resources of a task, or below defaults: {resources: …}")
	}
	if _, ofTask := r.taskFields[e.Key]; !ofTask {
		hint := fault.OneOf(e.Key, r.jobFields.Names())
		if ofTask := fault.OneOf(e.Key, r.taskFields.Names()); strings.HasPrefix(hint, "one of ") &&
			!strings.HasPrefix(ofTask, "one of ") {
			hint = "in a task: " + ofTask
		}
		return r.Fault(e.Name, "unknown field", hint)
	}
	hint := "write it below tasks, in its task"
	if _, ofAll := r.defaultFields[e.Key]; ofAll {
		hint += ", or below defaults for all of them"
	}
	return r.Fault(e.Name, "is a field of a task, not of the job", hint)
}

// unknownInTask returns the error for an unknown field of a task, which may be a field of the job or of resources.
func (r *reader) unknownInTask(e yamlfile.Entry) error {
	if _, ofJob := r.jobFields[e.Key]; ofJob {
		return r.Fault(e.Name, "is a field of the job, not of a task", "write it at the top level, next to tasks")
	}
	if _, ofMachine := r.resourceFields[e.Key]; ofMachine {
		return r.Fault(e.Name, "is a field of resources, not of a task", "write it below resources")
	}
	if strings.HasPrefix(fault.OneOf(e.Key, r.taskFields.Names()), "one of ") {
		if near := fault.Nearest(e.Key, r.resourceFields.Names()); near != "" {
			return r.Fault(e.Name, "unknown field", "write resources: {"+near+": …}")
		}
	}
	return r.Unknown(e, r.taskFields.Names())
}

func (r *reader) readVersion(n *yaml.Node) error {
	s, err := r.Text(n)
	if err != nil {
		return err
	}
	if s != dag.APIVersion {
		return r.Fault(n, fault.Quote(s)+" is not a supported version", "write "+dag.APIVersion)
	}
	return nil
}

func (r *reader) forJob() yamlfile.Fields[*dag.Job] {
	y := &r.Reader
	return yamlfile.Fields[*dag.Job]{
		"apiVersion": func(*dag.Job, *yaml.Node) error { return nil }, // read before the others
		"name": yamlfile.TextField(
			y,
			func(j *dag.Job) *string { return &j.Name },
			yamlfile.Checked(jobtext.CheckName),
		),
		"description": yamlfile.TextField(
			y,
			func(j *dag.Job) *string { return &j.Description },
			yamlfile.Checked(jobtext.CheckDescription),
		),
		"objective": func(j *dag.Job, n *yaml.Node) error {
			r.objective = n
			return yamlfile.TextField(y, func(j *dag.Job) *dag.Objective { return &j.Objective },
				word[dag.Objective])(j, n)
		},
		"weights": func(j *dag.Job, n *yaml.Node) error {
			r.weights = n
			return r.readWeights(j, n)
		},
		"deadline": yamlfile.TextField(
			y,
			func(j *dag.Job) *time.Duration { return &j.Deadline },
			dag.ParseDuration,
		),
		"keepOnFailure": yamlfile.TextField(
			y,
			func(j *dag.Job) *time.Duration { return &j.KeepOnFailure },
			dag.ParseDuration,
		),
		"budget": yamlfile.TextField(y, func(j *dag.Job) *dag.USD { return &j.Budget }, dag.ParseBudget),
		"queue": yamlfile.TextField(
			y,
			func(j *dag.Job) *string { return &j.Queue },
			yamlfile.Checked(jobtext.CheckName),
		),
		"namespace": yamlfile.TextField(
			y,
			func(j *dag.Job) *string { return &j.Namespace },
			yamlfile.Checked(jobtext.CheckName),
		),
		"announce": yamlfile.TextField(
			y,
			func(j *dag.Job) *string { return &j.Announce },
			yamlfile.Checked(jobtext.CheckTopic),
		),
		"notify": func(j *dag.Job, n *yaml.Node) error { return ReadNotify(y, n, &j.Notify) },
		"priority": yamlfile.TextField(y, func(j *dag.Job) *int { return &j.Priority }, func(s string) (int, error) {
			return jobtext.ParseInt(s, -dag.MaxPriority, dag.MaxPriority)
		}),
		"reference": func(_ *dag.Job, n *yaml.Node) error {
			named := r.defaults.Reference // in defaults, which are closer to the tasks
			err := r.defaultFields["reference"](&r.defaults, n)
			if named != "" {
				r.defaults.Reference = named
			}
			return err
		},
		"onFailure": func(j *dag.Job, n *yaml.Node) error {
			r.failAt = n
			return yamlfile.TextField(y, func(j *dag.Job) *dag.OnFailure { return &j.OnFailure },
				word[dag.OnFailure])(j, n)
		},
		"infeasible": yamlfile.TextField(
			y,
			func(j *dag.Job) *dag.Infeasible { return &j.Infeasible },
			word[dag.Infeasible],
		),
		"patience": yamlfile.TextField(
			y,
			func(j *dag.Job) *time.Duration { return &j.Patience },
			dag.ParseDuration,
		),
		"keep": yamlfile.TextField(
			y,
			func(j *dag.Job) *time.Duration { return &j.Keep },
			dag.ParseKeep,
		),
		"regions": func(j *dag.Job, n *yaml.Node) error {
			return r.List(n, func(_ int, n *yaml.Node) error {
				s, err := r.Text(n)
				if err == nil {
					err = dag.CheckPlace(s)
				}
				j.Regions = append(j.Regions, s)
				return err
			})
		},
		"env": func(_ *dag.Job, n *yaml.Node) (err error) {
			r.env, err = r.readEnv(n)
			return err
		},
		"secrets": func(_ *dag.Job, n *yaml.Node) (err error) {
			r.secrets, err = r.readSecrets(n, "secrets")
			return err
		},
		"labels": func(_ *dag.Job, n *yaml.Node) (err error) {
			r.labels, err = r.readLabels(n)
			return err
		},
		"placement": func(_ *dag.Job, n *yaml.Node) error {
			r.rules = n // read last, when all tasks are known
			return nil
		},
		"defaults": func(_ *dag.Job, n *yaml.Node) error {
			return yamlfile.ReadFields(y, n, r.defaultFields, &r.defaults)
		},
		"tasks": func(_ *dag.Job, n *yaml.Node) error {
			r.tasks = n // read last, when env and defaults are known
			return nil
		},
	}
}

// readWeights reads the weights of the objective.
func (r *reader) readWeights(j *dag.Job, n *yaml.Node) error {
	j.Weights = &dag.Weights{}
	given := map[string]bool{}
	weight := func(field string, to func(*dag.Weights) *float64) func(*dag.Weights, *yaml.Node) error {
		read := yamlfile.TextField(&r.Reader, to, dag.ParseWeight)
		return func(w *dag.Weights, n *yaml.Node) error {
			given[field] = true
			return read(w, n)
		}
	}
	err := yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*dag.Weights]{
		"cost": weight("cost", func(w *dag.Weights) *float64 { return &w.Cost }),
		"time": weight("time", func(w *dag.Weights) *float64 { return &w.Time }),
	}, j.Weights)
	for _, field := range []string{"cost", "time"} {
		if err == nil && !given[field] {
			err = fault.Within(field, r.Fault(n, "is missing", "write weights: {cost: 1, time: 0.5}"))
		}
	}
	return err
}

// checkWeights makes the checks of the objective and its weights.
func (r *reader) checkWeights() error {
	if r.objective == nil && r.weights != nil {
		r.job.Objective = dag.MinimizeWeighted
	}
	field, err := r.job.CheckWeights()
	at := r.objective
	if field == "weights" {
		at = r.weights
	}
	if err == nil {
		return nil
	}
	return fault.At(yamlfile.PositionOf(at), fault.Within(field, err))
}

func (r *reader) readTasks(n *yaml.Node) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	switch {
	case len(entries) == 0:
		return r.Fault(n, "is empty", "a job has at least one task")
	case len(entries) > jobtext.MaxTasks:
		return fault.At(
			yamlfile.PositionOf(n),
			fault.OverLimit(fmt.Sprintf("%d tasks, more than %d", len(entries), jobtext.MaxTasks), ""),
		)
	}
	parts := make([]taskPart, 0, len(entries))
	var all fault.Faults
	for _, e := range entries {
		var of []taskPart
		err := fault.At(yamlfile.PositionOf(e.Name), jobtext.CheckName(e.Key))
		var array *dag.Array
		if err == nil {
			array, err = r.arrayOf(e, jobtext.MaxTasks-len(parts))
		}
		if array != nil && err == nil {
			of = membersOf(e, array)
		}
		if err == nil && of == nil {
			of, err = r.replicasOf(e)
		}
		if err == nil && of == nil {
			of, err = r.partsOf(e)
		}
		if err != nil {
			if !all.Add(fault.WithinKey(e.Key, err)) {
				break
			}
			r.unread[e.Key] = true
			continue
		}
		if parts = append(parts, of...); len(parts) > jobtext.MaxTasks {
			return fault.At(yamlfile.PositionOf(e.Name),
				fault.OverLimit(fmt.Sprintf("more than %d tasks, with roles and replicas", jobtext.MaxTasks), ""))
		}
	}
	if !all.Add(r.nameTasks(parts)) {
		return all.Err()
	}
	for i := 0; i < len(parts); {
		if !all.Add(r.readTask(i, parts[i])) {
			break
		}
		if a := parts[i].array; a != nil {
			i += a.Size
			continue
		}
		i++
	}
	return all.Err()
}

// nameTasks assigns an index to each part, and records it by its name and the name of its gang.
func (r *reader) nameTasks(parts []taskPart) error {
	r.parts = parts
	r.index = make(map[string]int, len(parts))
	r.edgeOf = make([]int32, len(parts))
	r.job.Tasks = make([]dag.Task, len(parts))
	r.origin.Tasks = make([]fault.Position, len(parts))
	for i, p := range parts {
		name, at, whole := p.name, p.entry.Name, p.whole()
		if _, twice := r.index[whole]; twice && (p.task != nil || p.array != nil) {
			// another task's role has the name of this whole task
			name = whole
			if p.task != nil {
				at = p.task.Name
			}
		}
		if _, twice := r.index[name]; twice || r.gang[name] != nil && p.task != nil {
			return fault.WithinKey(name, r.Fault(at, "is the name of a task and of a role", "rename one"))
		}
		r.index[p.name] = i
		r.origin.Tasks[i] = yamlfile.PositionOf(p.entry.Name)
		if whole != "" {
			if r.gang == nil {
				r.gang = map[string][]int{}
			}
			if !p.joins { // nothing waits for joining tasks: they end with the gang's tasks
				r.gang[whole] = append(r.gang[whole], i)
			}
		}
	}
	if r.gang != nil {
		for _, p := range parts {
			r.origin.Paths = append(r.origin.Paths, "tasks."+p.path)
		}
	}
	return nil
}

func (r *reader) readTask(i int, p taskPart) error {
	t := &r.job.Tasks[i]
	*t = copied(r.defaults)
	t.Name = p.name
	r.current, r.marks, r.files, r.inputs, r.outputs, r.shares = i, nil, nil, nil, nil, nil
	r.serviceMarks, r.spark, r.executors = nil, nil, nil
	edges, marks := len(r.job.Edges), len(r.origin.Marks)
	r.saysShare, r.time, r.nodes = r.defaultsSayShare, r.defaultTime, r.defaultNodes
	clear(r.taken)
	if err := r.readPart(i, t, p); err != nil {
		r.markTask(i) // for errors about its local files
		return err
	}
	if p.array != nil {
		return fault.WithinKey(p.path, firstOf(r.endTask(i, t), func() error {
			if !r.saysShare {
				t.Share = t.ShareUnsaid()
			}
			return r.copyMembers(i, edges, marks)
		}))
	}
	if p.of != "" {
		return fault.WithinKey(p.of, r.endTask(i, t))
	}
	return fault.WithinKey(p.name, r.endTask(i, t))
}

// readPart reads the fields of a task, of a role of a gang or of a replica of a service.
func (r *reader) readPart(i int, t *dag.Task, p taskPart) error {
	switch {
	case p.task != nil:
		t.Nodes, t.MaxNodes = 1, 0
		r.gangs[i] = yamlfile.PositionOf(p.entry.Name)
		return r.readRole(t, p)
	case p.service:
		return fault.WithinKey(p.path, r.readReplica(t, p))
	}
	return fault.WithinKey(p.path, firstOf(
		yamlfile.ReadFieldsOr(&r.Reader, p.entry.Node, r.taskFields, t, r.unknownInTask),
		func() error { return r.endSpark(t, p.entry) }))
}

// markTask records the positions of a task's files, secrets and resources.
func (r *reader) markTask(i int) {
	for _, s := range r.secrets {
		r.files = append(r.files, s.mark)
	}
	for k, in := range r.inputs {
		r.files = append(r.files, dag.Mark{
			Alternative: dag.FilesOfTask, Pos: in.pos, Field: dag.InputField(k), Path: dag.InputField(int(in.index)),
		})
	}
	marks := slices.Concat(r.files, r.marks, r.serviceMarks)
	r.marked = len(marks)
	for _, m := range marks {
		m.Task = int32(i) //nolint:gosec // below dag.MaxTasks
		r.origin.Marks = append(r.origin.Marks, m)
	}
}

// endTask makes the checks that concern several fields of a task, and records their positions.
func (r *reader) endTask(i int, t *dag.Task) error {
	if k, err := t.CheckInputs(); err != nil { // checked last: any field may make it a stand-in, which stages nothing
		return fault.At(r.inputs[k].pos, fault.Within("inputs"+fault.Index(int(r.inputs[k].index)), err))
	}
	if len(t.Resources) == 0 && len(t.Services) == 0 {
		t.Resources = []dag.Resources{{}}
	}
	r.markTask(i)
	if err := r.checkTime(t); err != nil {
		return err
	}
	r.addJobSecrets(t)
	t.Labels = dag.MergeEnv(r.labels, t.Labels)
	if err := t.CheckPlacement(); err != nil { // and its labels
		return fault.At(r.origin.Tasks[i], err)
	}
	t.Env = dag.MergeEnv(r.env, t.Env)
	if !r.saysShare {
		r.silent[i] = true
	}
	if r.shares != nil {
		if why := t.WhyNotShared(); why != "" {
			return fault.Within("share", r.Fault(r.shares, "is not possible for this task: "+why, "remove it"))
		}
	}
	return fault.Within("secrets", notBoth(t))
}

// checkTime makes the checks of a task's time and nodes that concern other fields.
func (r *reader) checkTime(t *dag.Task) error {
	if err := t.CheckNodes(); err != nil {
		return fault.At(yamlfile.PositionOf(r.nodes), fault.Within("nodes", err))
	}
	if err := t.CheckFLOPs(); err != nil {
		return fault.Within("time", r.atField(r.time, jobtext.FLOPsKey, err))
	}
	if err := t.CheckByNodes(); err != nil {
		return fault.Within("time", r.atField(r.time, jobtext.NodesKey, err))
	}
	return nil
}

// copied returns a copy that shares no mutable data with t.
func copied(t dag.Task) dag.Task {
	t.Resources = slices.Clone(t.Resources)
	t.Time.On = maps.Clone(t.Time.On)
	t.Services = slices.Clone(t.Services)
	t.Placement = slices.Clone(t.Placement)
	if t.Checkpoint != nil {
		c := *t.Checkpoint
		t.Checkpoint = &c
	}
	return t
}

// readEnv reads variables. Their values are always text, whatever type YAML gives them.
func (r *reader) readEnv(n *yaml.Node) (map[string]string, error) {
	env := map[string]string{}
	err := r.Each(n, func(e yamlfile.Entry) (err error) {
		if err := jobtext.CheckEnvName(e.Key); err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		env[e.Key], err = r.Text(e.Node)
		return err
	})
	if err != nil || len(env) == 0 {
		return nil, err
	}
	return env, nil
}

// checkCycle returns an error if tasks wait for each other. Tasks with other errors count as far as they were read.
func (r *reader) checkCycle() error {
	cycle := r.job.Cycle()
	if cycle == nil {
		return nil
	}
	i := slices.IndexFunc(r.job.Edges, func(e dag.Edge) bool {
		return e.From == cycle[len(cycle)-1] && e.To == cycle[0]
	})
	return r.linkError(i, r.job.CycleError(cycle))
}

// checkGraph computes the data of the edges and checks the graph.
func (r *reader) checkGraph(doc *yaml.Node) error {
	j := r.job
	sizes := dag.NewOutputSizes(j)
	for i := range j.Edges {
		e := &j.Edges[i]
		data, err := sizes.Total(e.From, e.Outputs)
		if err != nil {
			return r.linkError(i, err)
		}
		if !r.links[i].explicit {
			e.Data = data
		}
	}
	if err := r.checkCycle(); err != nil {
		return err
	}
	if err := r.finishServices(doc); err != nil {
		return err
	}
	if r.failAt != nil && j.OnFailure == dag.ContinueJob {
		if err := j.CheckContinues(); err != nil {
			return fault.At(yamlfile.PositionOf(r.failAt), fault.Within("onFailure", err))
		}
	}
	j.MergeEdges()
	if err := r.finishPlacement(); err != nil {
		return err
	}
	if i, err := j.CheckGangs(); i >= 0 {
		path := jobtext.TaskPath(j.Tasks[i].Name)
		if r.parts[i].task != nil {
			return fault.At(r.gangs[i], fault.Within("tasks."+r.parts[i].path, err))
		}
		field := "gang"
		if j.Tasks[i].Gang == "" {
			field = "joins"
		}
		return fault.At(r.gangs[i], fault.Within(path, fault.Within(field, err)))
	}
	return nil
}

// linkError adds the position at which the file requests edge i to an error.
func (r *reader) linkError(i int, err error) error {
	l := r.links[i]
	field := "after"
	if l.isInput {
		field = "inputs"
	}
	path := jobtext.TaskPath(r.job.Tasks[r.job.Edges[i].To].Name)
	if p := &r.parts[r.job.Edges[i].To]; p.array != nil {
		path = jobtext.TaskPath(p.path)
	}
	err = fault.Within(
		path,
		fault.Within(field+fault.Index(int(l.index)), err),
	)
	return fault.At(l.pos, err)
}

// word reads one of the values of an enumerated type of the model.
func word[T interface {
	~string
	Check() error
}](s string) (T, error) {
	return T(s), T(s).Check()
}
