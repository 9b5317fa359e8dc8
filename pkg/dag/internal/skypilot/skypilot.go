// Package skypilot reads SkyPilot task files: one YAML document is a task, several documents are a chain. Fields that
// Tradewind ignores get a warning.
package skypilot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Volumes of SkyPilot are disks of one cloud or claims of a cluster, with data that the task needs.
const (
	volumesMissing = "volumes are not mounted"
	useBuckets     = "keep the data in a bucket: file_mounts"
)

// notActedOn is the warning about a SkyPilot field that Tradewind ignores.
const notActedOn = "is read but ignored"

// reader reads the documents of a SkyPilot file.
type reader struct {
	yamlfile.Reader
	job       *dag.Job
	given     map[string]string // variables that override those of the file
	origin    *dag.Origin
	names     *jobtext.Namer
	docs      [][]int // the tasks of each document
	parallel  bool    // the tasks are a group, not a chain
	primary   []string
	primaryAt *yaml.Node // of primary
	resources skyResourceFields
	task      yamlfile.Fields[*skyTask]
	storage   yamlfile.Fields[*skyStorage]
}

// skyTask is a document that is being read. Fields that depend on others are kept as nodes until all have been read.
type skyTask struct {
	dag.Task
	at       *yaml.Node
	workdir  *yaml.Node
	mounts   *yaml.Node
	inputs   *yaml.Node
	outputs  *yaml.Node
	priority int
	marks    []dag.Mark
	files    []dag.Mark // of its workdir and inputs
	places   dag.InputPlaces
	unset    map[string]bool // variables without a value
	service  *skyService     // nil for a task that ends
	portsAt  *yaml.Node
}

func newReader(name string, from yamlfile.Reader) *reader {
	r := &reader{Reader: from, names: jobtext.NewNamer(0)}
	r.job, r.origin = dag.NewJob(name, dag.SkyPilot)
	r.task, r.storage, r.resources = r.forTask(), r.forStorage(), r.forResources()
	return r
}

// IsSkyPilot reports whether a document has a field of a SkyPilot task.
func IsSkyPilot(doc *yaml.Node) bool {
	r := newReader("", yamlfile.Reader{})
	known := r.header()
	for i := 0; i+1 < len(doc.Content); i += 2 {
		_, ofTask := r.task[doc.Content[i].Value]
		if _, ofHeader := known[doc.Content[i].Value]; ofTask || ofHeader {
			return true
		}
	}
	return false
}

// Parse reads SkyPilot tasks: one YAML document is a task, several documents are a chain. data is the unpacked text.
//
// The defaults are SkyPilot's: without use_spot, machines are on-demand; without resources, they have 8 vCPUs and 32
// GiB.
func Parse(name string, data []byte) (*dag.Job, error) {
	docs, from, err := yamlfile.Decode(data)
	if err != nil {
		return dag.CheckJob(name, nil, err)
	}
	return FromYAML(name, docs, from, nil)
}

// FromYAML is Parse for a file that is already decoded. The variables env override those of the file.
func FromYAML(name string, docs []*yaml.Node, from yamlfile.Reader, env map[string]string) (*dag.Job, error) {
	r := newReader(name, from)
	r.given = env
	return dag.CheckJob(name, r.job, r.read(docs))
}

func (r *reader) read(docs []*yaml.Node) error {
	var all fault.Faults
	named, err := r.readHeader(docs[0])
	if !all.Add(err) {
		return all.Err()
	}
	if named {
		docs = docs[1:]
	}
	switch {
	case len(docs) == 0:
		all.Add(fault.At(
			fault.Position{Line: 1, Column: 1},
			fault.New("has a name and no tasks", "write each task as a separate document, after a line ---"),
		))
		return all.Err()
	case len(docs) > jobtext.MaxTasks:
		return fault.OverLimit(fmt.Sprintf("%d tasks, more than %d", len(docs), jobtext.MaxTasks), "")
	}
	if r.parallel {
		all.Add(r.checkGroup(docs))
	}
	for i, doc := range docs {
		if !all.Add(fault.At(yamlfile.PositionOf(doc), r.readTask(i, doc, !named && len(docs) == 1))) {
			break
		}
	}
	if !all.None() {
		return all.Err()
	}
	if r.parallel {
		return r.group()
	}
	return r.chain()
}

// checkGroup checks the names of the tasks of a job group, with which they find each other.
func (r *reader) checkGroup(docs []*yaml.Node) error {
	var all fault.Faults
	names := map[string]int{}
	for _, doc := range docs {
		entries, err := r.Mapping(doc)
		if err != nil {
			continue // readTask returns the error
		}
		name := ""
		for _, e := range entries {
			if e.Key == "name" {
				name = e.Node.Value
			}
		}
		switch first, twice := names[name]; {
		case name == "":
			all.Add(r.Fault(doc, "has no name", "the tasks of a job group find each other by name: add one"))
		case twice:
			all.Add(fault.Within("name", r.Fault(doc, fmt.Sprintf(
				"there are two tasks %s in the group, the first in line %d", fault.Quote(name), first), "rename one")))
		default:
			names[name] = doc.Line
		}
	}
	known := slices.Sorted(maps.Keys(names))
	for k, primary := range r.primary {
		if _, ok := names[primary]; !ok {
			all.Add(fault.Within("primary_tasks"+fault.Index(k), r.Fault(r.primaryAt.Content[k],
				"there is no task "+fault.Quote(primary), fault.DidYouMean(primary, known))))
		}
	}
	if n := len(r.primary); n > 1 && n < len(names) {
		all.Add(fault.Within("primary_tasks", r.Fault(r.primaryAt,
			"only one task can end the others", "name one, or all of them")))
	}
	return all.Err()
}

// group makes the tasks of a job group start together and find each other by name, as TASK-RANK.GROUP. If one of them
// is the primary task, its end ends the others.
func (r *reader) group() error {
	j := r.job
	if len(j.Tasks) > dag.MaxGang {
		if r.primary != nil {
			return r.Fault(r.primaryAt, fmt.Sprintf("%d tasks are more than the %d that can start and end together",
				len(j.Tasks), dag.MaxGang), "")
		}
		j.Warn(fault.Position{Line: 1, Column: 1}, "", fmt.Sprintf(
			"%d tasks are more than the %d that can start together: they do not find each other by name",
			len(j.Tasks), dag.MaxGang))
		return nil
	}
	if len(j.Tasks) < 2 {
		return nil
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Service != nil {
			return j.AtTask(i, fault.New("is a service in a job group", "write it as a separate job"))
		}
		t.Gang, t.Role = j.Name, jobtext.ToName(t.Name, "task")
		t.Env = dag.MergeEnv(t.Env, map[string]string{"SKYPILOT_JOBGROUP_NAME": j.Name})
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; len(r.primary) == 1 && t.Name == jobtext.ToName(r.primary[0], "task") {
			t.On = append(t.On, dag.Reaction{Event: dag.TaskCompleted, Action: dag.Complete})
		}
	}
	return nil
}

// header has the fields of a first document that is not a task.
func (r *reader) header() yamlfile.Fields[*dag.Job] {
	return yamlfile.Fields[*dag.Job]{
		"name": func(j *dag.Job, n *yaml.Node) error {
			s, err := r.Text(n)
			j.Name = jobtext.ToName(s, j.Name)
			return err
		},
		"execution": func(_ *dag.Job, n *yaml.Node) error {
			s, err := r.Text(n)
			if err != nil {
				return err
			}
			r.parallel = s == "parallel"
			return fault.CheckWord("execution", s, "serial", "parallel")
		},
		"primary_tasks": func(_ *dag.Job, n *yaml.Node) error {
			r.primaryAt = n
			return r.List(n, func(_ int, n *yaml.Node) error {
				s, err := r.Text(n)
				r.primary = append(r.primary, s)
				return err
			})
		},
		"termination_delay": func(_ *dag.Job, n *yaml.Node) error {
			if n.Kind == yaml.MappingNode {
				return r.Each(n, func(e yamlfile.Entry) error { return r.noDelay(e.Node) })
			}
			return r.noDelay(n)
		},
		"inter_connection": func(_ *dag.Job, n *yaml.Node) error {
			_, err := r.Boolean(n) // the names are known in any case
			return err
		},
	}
}

// noDelay refuses a delay between the end of the primary task and that of the other tasks.
func (r *reader) noDelay(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && strings.TrimRight(n.Value, "smhdw") == "0" {
		return nil
	}
	return r.Fault(n, "the other tasks end at once when the primary task has ended", "leave it out")
}

// readHeader reads a first document that has a name but no task. It may also declare the tasks as a group that runs
// in parallel. It returns false if the document is a task.
func (r *reader) readHeader(doc *yaml.Node) (bool, error) {
	header := r.header()
	entries, err := r.Mapping(doc)
	if err != nil {
		return false, err
	}
	group, task, ofGroup := false, len(entries) == 0, (*yaml.Node)(nil)
	for _, e := range entries {
		_, ok := header[e.Key]
		group, task = group || ok && e.Key != "name", task || !ok
		if ok && e.Key != "name" && e.Key != "execution" {
			ofGroup = e.Name
		}
	}
	if task && !group {
		return false, nil
	}
	r.parallel = ofGroup != nil // unless execution says otherwise
	var all fault.Faults
	all.Add(yamlfile.ReadFields(&r.Reader, doc, header, r.job))
	if ofGroup != nil && !r.parallel {
		all.Add(fault.Within(ofGroup.Value, r.Fault(ofGroup, "is a field of tasks that start together",
			"write execution: parallel, or leave it out")))
	}
	return true, all.Err()
}

// ignored returns a function that reads a field that has no counterpart here: it adds a warning.
func (r *reader) ignored(field, why string) func(*skyTask, *yaml.Node) error {
	return func(_ *skyTask, n *yaml.Node) error {
		if !yamlfile.IsNull(n) {
			r.job.Warn(yamlfile.PositionOf(n), field, why)
		}
		return nil
	}
}

// refused returns a function that refuses a field, because ignoring it would change the work of the
// task.
func (r *reader) refused(why, instead string) func(*skyTask, *yaml.Node) error {
	return func(_ *skyTask, n *yaml.Node) error { return r.Fault(n, why, instead) }
}

// only returns a function that reads a boolean and refuses the value that has no effect here.
func (r *reader) only(value bool, why string) func(*skyTask, *yaml.Node) error {
	return func(_ *skyTask, n *yaml.Node) error {
		is, err := r.Boolean(n)
		if err == nil && is != value {
			err = r.Fault(n, why, fmt.Sprintf("leave it out, or write %v", value))
		}
		return err
	}
}

// readManagedSecrets reads names of secrets that SkyPilot's server stores. Their values are given at submission.
func (r *reader) readManagedSecrets(t *skyTask, n *yaml.Node) error {
	return r.List(n, func(_ int, n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return r.addSecretName(t, n)
		}
		return r.Each(n, func(e yamlfile.Entry) error {
			if !yamlfile.IsNull(e.Node) && len(e.Node.Content) > 0 {
				return r.Fault(e.Node, "secrets are not mounted as files",
					"write its name alone, and read the variable")
			}
			return r.addSecretName(t, e.Name)
		})
	})
}

// addSecretName adds a secret by its name, which may have a group before a colon.
func (r *reader) addSecretName(t *skyTask, n *yaml.Node) error {
	name, err := r.Text(n)
	if err != nil {
		return err
	}
	return t.addSecret(name[strings.LastIndexByte(name, ':')+1:], n)
}

func (t *skyTask) addSecret(name string, at *yaml.Node) error {
	if err := jobtext.CheckEnvName(name); err != nil {
		return fault.At(yamlfile.PositionOf(at), err)
	}
	t.AddSecrets(name)
	t.markFile(dag.SecretField(name), at, dag.SecretField(name))
	return nil
}

// readConfig reads the settings of SkyPilot that a task may override. Those that only concern its clusters and networks
// get a warning.
func (r *reader) readConfig(t *skyTask, n *yaml.Node) error {
	group := func(path string, known yamlfile.Fields[*skyTask], harmless ...string) func(*skyTask, *yaml.Node) error {
		for _, field := range harmless {
			known[field] = r.ignored("config."+path+field, notActedOn)
		}
		return func(t *skyTask, n *yaml.Node) error { return yamlfile.ReadFields(&r.Reader, n, known, t) }
	}
	return group("", yamlfile.Fields[*skyTask]{
		"docker": group("docker.", yamlfile.Fields[*skyTask]{
			"run_options": r.refused("options of docker are not passed on", "write what they set into the script"),
		}),
		"nvidia_gpus": group("nvidia_gpus.", yamlfile.Fields[*skyTask]{}, "disable_ecc"),
		"kubernetes": group("kubernetes.", yamlfile.Fields[*skyTask]{
			"pod_config":      r.refused("pods are not configured", "write a Kubernetes manifest, which is read too"),
			"kueue":           r.refused("queues of a cluster are not used", "tradewind run --queue NAME"),
			"remote_identity": r.refused("machines have no account of a cluster", "tradewind secrets"),
			"custom_metadata": r.ignored("config.kubernetes.custom_metadata", notActedOn),
		}, "provision_timeout", "dws"),
		"ssh": group("ssh.", yamlfile.Fields[*skyTask]{
			"pod_config": r.refused("pods are not configured", "write a Kubernetes manifest, which is read too"),
		}, "custom_metadata", "provision_timeout"),
		"vast": group("vast.", yamlfile.Fields[*skyTask]{}, "datacenter_only", "create_instance_kwargs"),
		"gcp": group("gcp.", yamlfile.Fields[*skyTask]{}, "managed_instance_group", "enable_gvnic",
			"enable_gpu_direct", "placement_policy"),
		"hooks": r.refused(hooksMissing, hooksInstead),
	}, "active_workspace")(t, n)
}

// Hooks run when SkyPilot stops a cluster, which has no counterpart here.
const (
	hooksMissing = "hooks are not run"
	hooksInstead = "handle SIGTERM in run, which a machine gets before it is interrupted"
)

func (r *reader) forTask() yamlfile.Fields[*skyTask] {
	y := &r.Reader
	later := func(to func(*skyTask) **yaml.Node) func(*skyTask, *yaml.Node) error {
		return func(t *skyTask, n *yaml.Node) error {
			*to(t) = n
			return nil
		}
	}
	known := yamlfile.Fields[*skyTask]{
		"name": yamlfile.TextField(y, func(t *skyTask) *string { return &t.Name }, yamlfile.Checked(jobtext.CheckText)),
		"setup": yamlfile.TextField(
			y,
			func(t *skyTask) *string { return &t.Setup },
			yamlfile.Checked(jobtext.CheckScript),
		),
		"run": yamlfile.TextField(y, func(t *skyTask) *string { return &t.Run }, yamlfile.Checked(jobtext.CheckScript)),
		"num_nodes": yamlfile.TextField(y, func(t *skyTask) *int { return &t.Nodes }, func(s string) (int, error) {
			return jobtext.ParseInt(s, 1, jobtext.MaxNodes)
		}),
		"envs":        func(t *skyTask, n *yaml.Node) error { return r.readEnvs(t, n) },
		"secrets":     func(t *skyTask, n *yaml.Node) error { return r.readSecrets(t, n) },
		"resources":   func(t *skyTask, n *yaml.Node) error { return r.readResources(t, n) },
		"workdir":     later(func(t *skyTask) **yaml.Node { return &t.workdir }),
		"file_mounts": later(func(t *skyTask) **yaml.Node { return &t.mounts }),
		"inputs":      later(func(t *skyTask) **yaml.Node { return &t.inputs }),
		"outputs":     later(func(t *skyTask) **yaml.Node { return &t.outputs }),
		"service":     func(t *skyTask, n *yaml.Node) error { return r.readService(t, n) },
	}
	known["managed_secrets"] = r.readManagedSecrets
	known["config"] = r.readConfig
	known["api_server_access"] = r.only(false, "gives the task access to SkyPilot's server, which does not exist here")
	known["event_callback"] = r.ignored("event_callback", "is not run: tradewind status shows the state of a job, "+
		"and announce publishes its end")
	known["file_mounts_mapping"] = r.ignored("file_mounts_mapping", "is internal to SkyPilot's server")
	known["pool"] = r.refused("a pool of workers is not a task", "write the resources of the pool into the task")
	known["volumes"] = r.refused(volumesMissing, useBuckets)
	known["volume_mounts"] = r.refused(volumesMissing, useBuckets)
	// A field without a value counts as missing.
	for field, read := range known {
		known[field] = func(t *skyTask, n *yaml.Node) error {
			if yamlfile.IsNull(n) {
				return nil
			}
			return read(t, n)
		}
	}
	return known
}

// readTask reads a document. If it is the only one, its name is also the name of the job.
func (r *reader) readTask(i int, doc *yaml.Node, alone bool) error {
	t := &skyTask{
		Task: dag.Task{Nodes: 1, Login: true, Env: r.given}, at: doc, unset: map[string]bool{},
	}
	var all fault.Faults
	more := all.Add(r.readKnown(doc, t))
	if t.Resources == nil {
		t.Resources = []dag.Resources{skyDefaults(skyChoice{})}
	}
	for i := range t.Resources { // max_hourly_cost is for all machines together, in its strictest reading
		t.Resources[i].MaxUSDPerHour /= dag.USD(t.Nodes)
	}
	if more {
		all.Add(r.readData(t))
	}
	if !all.None() {
		r.addTask(doc, t.Task, t) // for errors about its local files
		return all.Err()
	}
	if k, err := t.CheckInputs(); err != nil {
		for _, m := range t.files {
			if m.Field == dag.InputField(k) {
				return fault.At(m.Pos, fault.Within(m.Path, err))
			}
		}
		return err
	}
	switch {
	case alone && t.Name != "":
		r.job.Name = jobtext.ToName(t.Name, r.job.Name)
		t.Name = r.job.Name
	case t.Name == "" && alone:
		t.Name = r.job.Name
	case t.Name == "":
		t.Name = fmt.Sprintf("%s-%d", r.job.Name, i)
	}
	t.Name = r.names.Name(t.Name, "task")
	tasks, err := r.replicas(t)
	if err != nil {
		return err
	}
	if len(r.job.Tasks)+len(tasks) > jobtext.MaxTasks {
		return fault.At(yamlfile.PositionOf(doc),
			fault.OverLimit(fmt.Sprintf("more than %d tasks, with the replicas of services", jobtext.MaxTasks), ""))
	}
	var indexes []int
	for _, task := range tasks {
		indexes = append(indexes, len(r.job.Tasks))
		r.addTask(doc, task, t)
	}
	r.docs = append(r.docs, indexes)
	r.job.Priority = max(r.job.Priority, t.priority)
	return nil
}

// addTask adds a task of a document to the job, with its positions.
func (r *reader) addTask(doc *yaml.Node, task dag.Task, t *skyTask) {
	o := r.origin
	for _, m := range slices.Concat(t.files, t.marks) {
		m.Task = int32(len(r.job.Tasks)) //nolint:gosec // below dag.MaxTasks
		o.Marks = append(o.Marks, m)
	}
	o.Tasks = append(o.Tasks, yamlfile.PositionOf(doc))
	o.Paths = append(o.Paths, "")
	r.job.Tasks = append(r.job.Tasks, task)
}

// readKnown reads the fields of a task, and ignores SkyPilot's internal fields.
func (r *reader) readKnown(doc *yaml.Node, t *skyTask) error {
	entries, err := r.Mapping(doc)
	if err != nil {
		return err
	}
	var all fault.Faults
	for _, e := range entries { // the other fields use the variables
		if e.Key == "envs" {
			all.Add(fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), r.task[e.Key](t, e.Node))))
		}
	}
	all.Add(r.Each(doc, func(e yamlfile.Entry) error {
		read, ok := r.task[e.Key]
		switch {
		case e.Key == "envs" || e.Key == "_metadata": // internal to SkyPilot
			return nil
		case !ok:
			return r.unknownOfTask(e)
		case e.Key == "name" || e.Key == "service":
			return read(t, r.expanded(t, e.Node, e.Key))
		}
		return read(t, e.Node)
	}))
	return all.Err()
}

// unknownOfTask returns the error for a field that tasks do not have.
func (r *reader) unknownOfTask(e yamlfile.Entry) error {
	if _, ok := r.resources[e.Key]; ok {
		return r.Fault(e.Name, "is a field of resources, not of a task", "write it below resources")
	}
	if here, ok := calledHere[strings.ToLower(e.Key)]; ok {
		return r.Fault(e.Name, "unknown field", "write "+here)
	}
	return r.Unknown(e, r.task.Names())
}

// calledHere has, for fields of other tools, the text to write in a SkyPilot file. It adds to the fields that package
// fault knows.
var calledHere = map[string]string{
	"spot": "resources: {use_spot: true}", "preemptible": "resources: {use_spot: true}",
	"market": "resources: {use_spot: true}", "nodes": "num_nodes: N", "replicas": "num_nodes: N",
	"env":         "envs: {NAME: VALUE}",
	"environment": "envs: {NAME: VALUE}", "image": "resources: {image_id: docker:NAME}",
	"container": "resources: {image_id: docker:NAME}", "docker": "resources: {image_id: docker:NAME}",
	"disk": "resources: {disk_size: GIB}", "mounts": "file_mounts: {PATH: SOURCE}",
	"timeout": "tradewind convert, and timeout: in the converted file",
	"gpu":     "resources: {accelerators: NAME:COUNT}", "gpus": "resources: {accelerators: NAME:COUNT}",
}

// readEnvs reads variables. Those without a value are given at submission, as with SkyPilot's command line.
func (r *reader) readEnvs(t *skyTask, n *yaml.Node) error {
	env := map[string]string{}
	err := r.Each(n, func(e yamlfile.Entry) (err error) {
		if _, ok := r.given[e.Key]; ok {
			return nil
		}
		if yamlfile.IsNull(e.Node) {
			t.unset[e.Key] = true
			r.job.NeedsValue(e.Key, yamlfile.PositionOf(e.Name), "envs."+e.Key)
			r.job.Warn(yamlfile.PositionOf(e.Name), "envs."+e.Key,
				"has no value and is not set: give it with --env "+e.Key+"=VALUE")
			return nil
		}
		if err := jobtext.CheckEnvName(e.Key); err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		env[e.Key], err = r.variable("envs."+e.Key, e.Node)
		return err
	})
	if err != nil {
		return err
	}
	t.Env = jobtext.WithoutEnv(dag.MergeEnv(env, t.Env), t.Secrets)
	if len(t.Env) == 0 {
		t.Env = nil
	}
	return nil
}

// readSecrets reads secrets, which override variables of the same name, in any order. The user gives the value at
// submission for a secret without a value and for a secret in a list (SkyPilot would store the latter itself).
func (r *reader) readSecrets(t *skyTask, n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return r.List(n, func(_ int, n *yaml.Node) error { return r.addSecretName(t, n) })
	}
	return r.Each(n, func(e yamlfile.Entry) error { return r.readSecret(e, t.addSecret) })
}

func (r *reader) readSecret(e yamlfile.Entry, add func(string, *yaml.Node) error) error {
	if err := add(e.Key, e.Name); err != nil || yamlfile.IsNull(e.Node) {
		return err
	}
	value, err := r.variable("secrets."+e.Key, e.Node)
	if err != nil || value == "" {
		return err // an empty value is given at submission too
	}
	return fault.At(yamlfile.PositionOf(e.Node), r.job.AddSecretValue(e.Key, value))
}

// readData reads the fields that name files and buckets, in which variables are expanded.
func (r *reader) readData(t *skyTask) error {
	var all fault.Faults
	if n := t.workdir; n != nil {
		all.Add(fault.Within("workdir", r.readWorkdir(t, n)))
	}
	if t.mounts != nil {
		all.Add(fault.Within("file_mounts", r.readMounts(t, t.mounts)))
	}
	if t.inputs != nil {
		all.Add(fault.Within("inputs", r.readEstimates(t, t.inputs, r.addEstimate)))
	}
	if t.outputs != nil {
		outputs := jobtext.NewNamer(0)
		all.Add(fault.Within(
			"outputs",
			r.readEstimates(t, t.outputs, func(t *skyTask, what string, size dag.GiB, _ *yaml.Node) error {
				o := dag.Output{Name: outputs.Name(lastElement(what), "output"), Size: size}
				var err error
				if strings.Contains(what, "://") {
					o.URI, err = what, jobtext.CheckURI(what)
				}
				t.Outputs = append(t.Outputs, o)
				return err
			}),
		))
	}
	return all.Err()
}

func (r *reader) readWorkdir(t *skyTask, n *yaml.Node) error {
	t.markFile("workdir", n, "workdir")
	if n.Kind == yaml.MappingNode {
		return r.readRepository(t, n)
	}
	s, err := r.Text(n)
	if err != nil {
		return err
	}
	if t.Workdir, err = r.filled(t, n, "workdir", s); err != nil {
		return err
	}
	return fault.At(yamlfile.PositionOf(n), jobtext.CheckURI(t.Workdir))
}

// readRepository reads a git repository; variables are expanded.
func (r *reader) readRepository(t *skyTask, n *yaml.Node) error {
	y := &r.Reader
	text := func(to func(*dag.Repository) *string, check func(string) error) func(*dag.Repository, *yaml.Node) error {
		return func(repo *dag.Repository, n *yaml.Node) error {
			s, err := y.Text(n)
			if err != nil {
				return err
			}
			if *to(repo) = r.expand(t, n, "workdir", s); *to(repo) == "" {
				_, err = r.filled(t, n, "workdir", s)
				return err
			}
			return check(*to(repo))
		}
	}
	repo := &dag.Repository{}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Repository]{
		"url": text(func(r *dag.Repository) *string { return &r.URL }, jobtext.CheckRepositoryURL),
		"ref": text(func(r *dag.Repository) *string { return &r.Ref }, jobtext.CheckRef),
	}, repo)
	if err == nil && repo.URL == "" {
		err = fault.Within("url", r.Fault(n, "is missing", "add the URL of the git repository"))
	}
	t.Repository = repo
	return err
}

// markFile records the position of a workdir, input or secret.
func (t *skyTask) markFile(field string, n *yaml.Node, path string) {
	t.files = append(
		t.files,
		dag.Mark{Alternative: dag.FilesOfTask, Pos: yamlfile.PositionOf(n), Field: field, Path: path},
	)
}

// readEstimates reads the data that a task reads or writes, with sizes in GiB.
func (r *reader) readEstimates(
	t *skyTask,
	n *yaml.Node,
	add func(*skyTask, string, dag.GiB, *yaml.Node) error,
) error {
	return r.Each(n, func(e yamlfile.Entry) error {
		s, err := r.Text(e.Node)
		if err != nil {
			return err
		}
		size, err := dag.ParseSize(s)
		if err != nil {
			return err
		}
		return add(t, e.Key, size, e.Node)
	})
}

// addEstimate sets the size of data that a task reads; n is the node of the field. If no mount has the data, it
// becomes an input that the agent stages, which SkyPilot does not do.
func (r *reader) addEstimate(t *skyTask, uri string, size dag.GiB, n *yaml.Node) error {
	for i := range t.Inputs {
		if strings.TrimRight(t.Inputs[i].URI, "/") == strings.TrimRight(uri, "/") {
			t.Inputs[i].Size = size
			return nil
		}
	}
	r.job.Warn(
		yamlfile.PositionOf(n),
		fault.Join("inputs", uri),
		"is copied to $TRADEWIND_INPUTS before the task starts",
	)
	return t.addInput(dag.Input{URI: uri, Size: size})
}
