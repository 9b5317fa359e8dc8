// Package kubernetes reads the manifests of batch work: Jobs of batch/v1, JobSets, Volcano's Jobs and JobFlows, and
// Kubeflow's training jobs, with the ConfigMaps and Secrets in the same file.
//
// A manifest describes how pods are made; a task is the work of their command. Fields that need a cluster (claims,
// hostPath, several containers) are errors at their line if the work would have another result without them;
// otherwise the job gets a warning.
package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// reader reads the documents of a file.
type reader struct {
	yamlfile.Reader
	job        *dag.Job
	origin     *dag.Origin
	names      *jobtext.Namer
	path       []string // of the field that is being read, in its document
	referenced referenced
	alone      bool // the file has one workload, which names the job
	edges      int
	given      []podtext.Variable // for all containers; they override those of the file
	current    string             // the object that is being read, for messages
	asks       asked              // of the workload that is being read
	first      *asked             // of the first workload
	seen       map[string]int     // by kind, namespace and name: the line of an object
}

// asked is the queue and the priority that a workload requests. A job has one of each.
type asked struct {
	of       string // the workload
	queue    string // empty is the default queue
	priority int
	limit    time.Duration // Kueue's maximum time of execution; 0 is none
}

// document is one object of the file.
type document struct {
	node          *yaml.Node
	version, kind string
	name          string
	group         string // the group in version: batch, jobset.x-k8s.io
	meta          metadata
	spec          *yaml.Node
}

// metadata has the fields of an object's metadata that are read.
type metadata struct {
	name, generated, namespace string
	labels, annotations        map[string]string
	at                         *yaml.Node
}

// IsManifest reports whether a document is a Kubernetes object: it has an apiVersion and a kind.
func IsManifest(doc *yaml.Node) bool {
	version, kind := "", false
	for i := 0; i+1 < len(doc.Content); i += 2 {
		switch doc.Content[i].Value {
		case "apiVersion":
			version = doc.Content[i+1].Value
		case "kind":
			kind = true
		}
	}
	return kind && version != "" && !strings.HasPrefix(version, "tradewind/")
}

// Parse reads manifests. data is the unpacked text.
func Parse(name string, data []byte) (*dag.Job, error) {
	docs, from, err := yamlfile.Decode(data)
	if err != nil {
		return dag.CheckJob(name, nil, err)
	}
	return FromYAML(name, docs, from, nil)
}

// FromYAML is Parse for a file that is already decoded. env are variables for every container; they override those of
// the file.
func FromYAML(name string, docs []*yaml.Node, from yamlfile.Reader, env map[string]string) (*dag.Job, error) {
	r := &reader{Reader: from, names: jobtext.NewNamer(0)}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		r.given = append(r.given, podtext.Variable{Name: name, Value: podtext.Plain(env[name]), Given: true})
	}
	r.job, r.origin = dag.NewJob(name, dag.Kubernetes)
	return dag.CheckJob(name, r.job, r.read(docs))
}

// workload reads an object of a kind that runs something.
type workload func(r *reader, d *document) ([]*group, error)

// workloads returns the supported kinds of workloads, by group and kind.
func workloads() map[string]workload {
	return map[string]workload{
		"batch/Job":                     (*reader).batchJob,
		"/Pod":                          (*reader).lonePod,
		"jobset.x-k8s.io/JobSet":        (*reader).jobSet,
		"batch.volcano.sh/Job":          (*reader).volcanoJob,
		"flow.volcano.sh/JobFlow":       (*reader).jobFlow,
		"trainer.kubeflow.org/TrainJob": (*reader).trainJob,
		"kubeflow.org/PyTorchJob":       (*reader).pytorchJob,
		"kubeflow.org/TFJob":            (*reader).tfJob,
		"kubeflow.org/MPIJob":           (*reader).mpiJob,
		"kubeflow.org/XGBoostJob":       (*reader).xgboostJob,
		"kubeflow.org/JAXJob":           (*reader).jaxJob,
		"kubeflow.org/PaddleJob":        (*reader).paddleJob,
	}
}

// unsupportedKinds returns kinds that are not supported, each with a hint for a replacement.
func unsupportedKinds() map[string]string {
	const clock = "write its jobTemplate as a Job, and run tradewind submit on a schedule"
	const ends = "Tradewind runs work that ends: a Job, a JobSet, a Volcano or Kubeflow job"
	return map[string]string{
		"batch/CronJob":                         clock,
		"batch.volcano.sh/CronJob":              clock,
		"apps/Deployment":                       ends,
		"apps/StatefulSet":                      ends,
		"apps/DaemonSet":                        ends,
		"apps/ReplicaSet":                       ends,
		"ray.io/RayJob":                         "its pods need Ray's operator; " + ends,
		"ray.io/RayCluster":                     ends,
		"sparkoperator.k8s.io/SparkApplication": "its pods need Spark's operator; " + ends,
		"argoproj.io/Workflow":                  "Argo workflows are not supported; " + ends,
	}
}

func (r *reader) read(roots []*yaml.Node) error {
	var all fault.Faults
	docs, err := r.documents(roots)
	if !all.Add(err) || len(docs) == 0 {
		return all.Err()
	}
	known, work := workloads(), 0
	for _, d := range docs {
		if !all.Add(r.keepReferenced(d)) {
			return all.Err()
		}
		if known[d.group+"/"+d.kind] != nil {
			work++
		}
	}
	r.alone = work == 1
	if !r.alone {
		r.job.Name = jobtext.ToName(jobtext.NameFromFile(r.origin.File), "job")
	}
	for _, d := range docs {
		if !all.Add(r.readDocument(d, known)) {
			break
		}
	}
	if !all.None() {
		return all.Err()
	}
	if err := r.addPodGroups(); err != nil {
		return err
	}
	if len(r.job.Tasks) == 0 {
		return r.noWork(docs)
	}
	r.job.MergeEdges()
	return nil
}

// noWork returns the error for a file without a workload.
func (r *reader) noWork(docs []*document) error {
	d := docs[0]
	for _, d := range docs {
		if d.kind == "JobTemplate" && d.group == flowGroup {
			return r.Fault(d.node, "is a JobTemplate without a JobFlow",
				"put the JobFlow that names it into the same file, after a line ---")
		}
	}
	return r.Fault(d.node, "has nothing to run: "+d.version+" "+d.kind, "add a Job, JobSet, Volcano or Kubeflow job")
}

// documents reads the head of each object, including those in Lists.
func (r *reader) documents(roots []*yaml.Node) ([]*document, error) {
	var docs []*document
	var all fault.Faults
	for _, root := range roots {
		d, err := r.head(root)
		if !all.Add(err) {
			break
		}
		if d == nil {
			continue
		}
		if d.kind != "List" {
			docs = append(docs, d)
			continue
		}
		items, err := r.field(root, "items")
		if err == nil && items != nil {
			err = r.List(items, func(_ int, n *yaml.Node) error {
				d, err := r.head(n)
				if d != nil {
					docs = append(docs, d)
				}
				return err
			})
		}
		if !all.Add(fault.Within("items", err)) {
			break
		}
	}
	if all.None() && len(docs) == 0 {
		return nil, r.Fault(roots[0], "is an empty List", "add a Job, JobSet, Volcano or Kubeflow job")
	}
	return docs, all.Err()
}

// head reads the fields that every object has. It returns nil for an object of an unknown kind. For other faults, it
// also returns the object with the fields that it could read.
func (r *reader) head(n *yaml.Node) (*document, error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	d := &document{node: n}
	var all fault.Faults
	for _, e := range entries {
		var err error
		switch e.Key {
		case "apiVersion":
			d.version, err = r.Text(e.Node)
		case "kind":
			d.kind, err = r.Text(e.Node)
		case "metadata":
			err = r.within("metadata", func() error { return r.metadata(&d.meta, e.Node) })
		}
		if !all.Add(fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))) {
			break
		}
	}
	if d.version == "" || d.kind == "" {
		if !all.None() {
			return nil, all.Err()
		}
		return nil, r.Fault(n, "has no "+map[bool]string{true: "apiVersion", false: "kind"}[d.version == ""],
			"every object of Kubernetes has an apiVersion and a kind")
	}
	if group, _, some := strings.Cut(d.version, "/"); some {
		d.group = group
	}
	d.name = d.meta.name
	if d.name == "" {
		d.name = strings.TrimRight(d.meta.generated, "-")
	}
	return d, all.Err()
}

func (r *reader) metadata(m *metadata, n *yaml.Node) error {
	if yamlfile.IsNull(n) {
		return nil
	}
	m.at = n
	err := r.Each(n, func(e yamlfile.Entry) (err error) {
		if yamlfile.IsNull(e.Node) {
			return nil
		}
		switch e.Key {
		case "name":
			m.name, err = r.Text(e.Node)
		case "generateName":
			m.generated, err = r.Text(e.Node)
		case "namespace":
			m.namespace, err = r.Text(e.Node)
		case "labels":
			m.labels, err = r.texts(e.Node)
		case "annotations":
			m.annotations, err = r.texts(e.Node)
		case "finalizers", "ownerReferences", "uid", "resourceVersion", "generation", "creationTimestamp",
			"managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds":
		default:
			err = r.Unknown(e, []string{"name", "generateName", "namespace", "labels", "annotations"})
		}
		return err
	})
	r.warnKeys(m)
	return err
}

// otherKind handles an object that is not a workload: it is refused, warned about, or used by other objects.
func (r *reader) otherKind(d *document, known map[string]workload) error {
	if hint, ok := unsupportedKinds()[d.group+"/"+d.kind]; ok {
		return r.Fault(d.node, d.version+" "+d.kind+" is not supported", hint)
	}
	if r.isReferencedKind(d) {
		return nil
	}
	if d.kind == "Queue" && d.group == schedulingGroup {
		r.job.Warn(yamlfile.PositionOf(d.node), "", "Queue "+d.name+" is not created: tradewind convert prints the "+
			"commands for a file that has only queues")
		return nil
	}
	for _, known := range slices.Sorted(mapKeys(known)) {
		group, name, _ := strings.Cut(known, "/")
		if name == d.kind && fault.Distance(group, d.group, 4) <= 4 || group == d.group &&
			fault.Distance(name, d.kind, 2) <= 2 {
			of := group + "/…"
			if group == "" {
				of = "v1"
			}
			return r.Fault(d.node, d.version+" "+d.kind+" is unknown", "did you mean "+name+" of "+of+"?")
		}
	}
	r.job.Warn(yamlfile.PositionOf(d.node), "", d.version+" "+d.kind+" is ignored")
	return nil
}

// readDocument adds the tasks of an object to the job.
func (r *reader) readDocument(d *document, known map[string]workload) error {
	read := known[d.group+"/"+d.kind]
	if read == nil {
		return r.otherKind(d, known)
	}
	if d.name == "" {
		return r.Fault(d.node, "has no name", "add metadata.name")
	}
	if r.alone {
		r.job.Name = jobtext.ToName(d.name, r.job.Name)
	}
	r.current = d.kind + " " + d.name
	r.asks = asked{of: r.current}
	var all fault.Faults
	all.Add(r.once(d))
	all.Add(r.setQueueFromLabels(&d.meta))
	all.Add(r.setLimit(&d.meta))
	entries, err := r.Mapping(d.node)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Key {
		case "spec":
			d.spec = e.Node
		case "apiVersion", "kind", "metadata", "status":
		default:
			return fault.WithinKey(e.Key, r.Unknown(e, []string{"apiVersion", "kind", "metadata", "spec"}))
		}
	}
	if d.spec == nil || yamlfile.IsNull(d.spec) {
		return r.Fault(d.node, "has no spec", "add a spec")
	}
	var groups []*group
	err = r.within("spec", func() error {
		var err error
		groups, err = read(r, d)
		return err
	})
	all.Add(fault.Within("spec", fault.At(yamlfile.PositionOf(d.spec), err)))
	if !all.None() {
		return all.Err()
	}
	for _, g := range groups {
		for _, p := range g.roles {
			p.pod.limit(r.asks.limit)
		}
	}
	return firstOf(r.sameAsFirst(d.node), func() error { return r.addGroups(groups) })
}

// once refuses a second object with the same kind and name, because a cluster would replace the first one.
func (r *reader) once(d *document) error {
	key := d.kind + " " + d.meta.namespace + "/" + d.meta.name
	if d.meta.name == "" {
		return nil
	}
	if line, twice := r.seen[key]; twice {
		return r.Fault(d.node, fmt.Sprintf("there are two of %s %s, the first in line %d",
			d.kind, fault.Quote(d.name), line), "rename one")
	}
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[key] = d.node.Line
	return nil
}

// maxExecution is the label with the seconds after which Kueue ends a workload.
const maxExecution = "kueue.x-k8s.io/max-exec-time-seconds"

// setLimit reads the label maxExecution of a workload.
func (r *reader) setLimit(m *metadata) error {
	text, ok := m.labels[maxExecution]
	if !ok {
		return nil
	}
	v, err := jobtext.ParseInt(text, 1, int(dag.MaxDuration/time.Second))
	r.asks.limit = time.Duration(v) * time.Second
	return fault.Within("metadata", fault.WithinKey(maxExecution, fault.At(yamlfile.PositionOf(m.at), err)))
}

func firstOf(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// sameAsFirst refuses a workload whose queue or priority differs from that of the first one in the file.
func (r *reader) sameAsFirst(n *yaml.Node) error {
	if r.first == nil {
		first := r.asks
		r.first = &first
		r.job.Queue, r.job.Priority = first.queue, first.priority
		return nil
	}
	const hint = "a job has one: write them in two files"
	quoted := func(queue string) string {
		if queue == "" {
			return "the default queue"
		}
		return "queue " + fault.Quote(queue)
	}
	a, b := r.first, r.asks
	switch {
	case a.queue != b.queue:
		return r.Fault(n, "is in "+quoted(b.queue)+", and "+a.of+" is in "+quoted(a.queue), hint)
	case a.priority != b.priority:
		return r.Fault(n, fmt.Sprintf("has the priority %d, and %s has %d", b.priority, a.of, a.priority), hint)
	}
	return nil
}

// setQueueFromLabels sets the queue and the priority from labels and annotations of Kueue or Volcano.
func (r *reader) setQueueFromLabels(m *metadata) error {
	for _, keys := range []map[string]string{m.labels, m.annotations} {
		for _, name := range []string{"kueue.x-k8s.io/queue-name", "volcano.sh/queue-name",
			"scheduling.volcano.sh/queue-name"} {
			if err := r.setQueue(keys[name], m.at); err != nil {
				return err
			}
		}
	}
	if class := m.labels["kueue.x-k8s.io/priority-class"]; class != "" {
		r.usePriority(class, m.at)
	}
	return nil
}

// setQueue sets the queue of the workload. The name of the cluster's default queue means the default queue of
// Tradewind.
func (r *reader) setQueue(name string, n *yaml.Node) error {
	if name == "default" || name == "" {
		return nil
	}
	if err := jobtext.CheckName(name); err != nil {
		return fault.At(yamlfile.PositionOf(n), err)
	}
	if r.asks.queue != "" && r.asks.queue != name {
		return r.Fault(n, "names the queue "+fault.Quote(name)+", and also "+fault.Quote(r.asks.queue), "remove one")
	}
	r.asks.queue = name
	return nil
}

// readKeys are the labels and annotations about scheduling that are read.
var readKeys = []string{"kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", "volcano.sh/queue-name",
	"scheduling.volcano.sh/queue-name", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name",
	hierarchy, hierarchyWeights}

// schedulers are the domains of the labels and annotations of schedulers of batch work.
var schedulers = []string{"kueue.x-k8s.io", "scheduling.volcano.sh", "volcano.sh", "scheduling.k8s.io",
	"scheduling.x-k8s.io", "pod-group.scheduling.sigs.k8s.io", "kai.scheduler", "runai", "yunikorn.apache.org"}

// warnKeys warns about labels and annotations about scheduling that are not read.
func (r *reader) warnKeys(m *metadata) {
	for _, keys := range []map[string]string{m.labels, m.annotations} {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			domain, _, _ := strings.Cut(key, "/")
			ofWorkload := key == maxExecution && len(r.path) == 1
			unread := slices.Contains(schedulers, domain) && !slices.Contains(readKeys, key) && !ofWorkload
			if unread || key == "sla-waiting-time" {
				r.job.Warn(yamlfile.PositionOf(m.at), fault.Join(r.where(), fault.KeyElement(key)), notActedOn)
			}
		}
	}
}
