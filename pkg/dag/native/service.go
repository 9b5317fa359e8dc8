package native

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// The file has a task with a service once for all replicas. With several replicas it is read as one task for each,
// named TASK.N, and its placement rules apply to all of them.

// fieldOf returns the value of a field of a mapping, or nil if it is missing or n is not a mapping.
func (r *reader) fieldOf(n *yaml.Node, key string) (*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil // the reader of the whole node reports it better
	}
	fields, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(fields, func(f yamlfile.Entry) bool { return f.Key == key })
	if i < 0 {
		return nil, nil
	}
	return fields[i].Node, nil
}

// replicasOf returns the parts for the replicas of a task with a service, or nil for other tasks.
func (r *reader) replicasOf(e yamlfile.Entry) ([]taskPart, error) {
	service, err := r.fieldOf(e.Node, "service")
	if err != nil || service == nil {
		return nil, err
	}
	one := taskPart{name: e.Key, path: e.Key, entry: e, service: true}
	replicas, err := r.fieldOf(service, "replicas")
	if err != nil || replicas == nil {
		return []taskPart{one}, err
	}
	text, err := r.Text(replicas)
	if err != nil {
		return nil, fault.Within("service", fault.Within("replicas", err))
	}
	n, err := jobtext.ParseInt(text, 1, jobtext.MaxReplicas)
	if of, _ := r.fieldOf(service, "of"); err == nil && of != nil {
		err = fault.New(
			"cannot be combined with of, which makes the task one of the replicas",
			"leave one of the two out",
		)
	}
	if err != nil {
		return nil, fault.Within("service", fault.Within("replicas", fault.At(yamlfile.PositionOf(replicas), err)))
	}
	if n == 1 {
		return []taskPart{one}, nil
	}
	if one.rules, err = r.fieldOf(e.Node, "placement"); err != nil {
		return nil, err
	}
	parts := make([]taskPart, n)
	for i := range parts {
		parts[i] = one
		parts[i].name, parts[i].of = e.Key+roleMark+strconv.Itoa(i), e.Key
	}
	return parts, nil
}

// whole returns the name of the file's task to which the part belongs, or "" if the part is the whole task.
func (p *taskPart) whole() string {
	if p.task != nil {
		return p.task.Key
	}
	if p.array != nil {
		return p.array.Name
	}
	return p.of
}

// readReplica reads a replica of a service. It drops the defaults that apply only to tasks that end.
func (r *reader) readReplica(t *dag.Task, p taskPart) error {
	t.Share = dag.ShareNone
	t.Time, t.Reference, t.Checkpoint, t.Retries, t.Timeout = dag.TimeEstimate{}, "", nil, 0, 0
	fields := r.taskFields
	if p.of != "" {
		fields = maps.Clone(fields)
		fields["placement"] = func(*dag.Task, *yaml.Node) error { return nil } // for all replicas: finishPlacement
	}
	if err := yamlfile.ReadFieldsOr(&r.Reader, p.entry.Node, fields, t, r.unknownInTask); err != nil {
		return err
	}
	if p.of != "" {
		t.Service.Of = p.of
	} else if t.Service.Of == "" {
		t.Service.Of = p.name
	}
	if err := t.CheckService(); err != nil {
		return fault.At(r.positionIn(p.entry, err), err)
	}
	return nil
}

// positionIn returns the position of the field that an error is about, or else of the task.
func (r *reader) positionIn(e yamlfile.Entry, err error) fault.Position {
	at := yamlfile.PositionOf(e.Name)
	fields, _ := r.Mapping(e.Node)
	for _, f := range fields {
		if fault.FieldOf(err) == f.Key {
			at = yamlfile.PositionOf(f.Node)
		}
	}
	return at
}

func (r *reader) readService(t *dag.Task, n *yaml.Node) error {
	y := &r.Reader
	s := &dag.Service{}
	if n.Kind != yaml.MappingNode {
		return r.Fault(n, "is not a mapping", "service: {replicas: 2, port: 8080, readiness: {path: /health}}")
	}
	t.Service = s
	return yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Service]{
		"replicas": func(*dag.Service, *yaml.Node) error { return nil }, // already read by replicasOf
		"of": yamlfile.TextField(y, func(s *dag.Service) *string { return &s.Of },
			yamlfile.Checked(jobtext.CheckName)),
		"port": yamlfile.TextField(y, func(s *dag.Service) *int { return &s.Port }, func(s string) (int, error) {
			return jobtext.ParseInt(s, 1, 65535)
		}),
		"readiness": r.readReadiness,
	}, s)
}

// readReadiness reads the readiness of a service: only a path, or a mapping.
func (r *reader) readReadiness(s *dag.Service, n *yaml.Node) error {
	y, to := &r.Reader, &s.Readiness
	path := yamlfile.TextField(y, func(r *dag.Readiness) *string { return &r.Path },
		yamlfile.Checked(jobtext.CheckProbePath))
	if n.Kind == yaml.ScalarNode {
		return path(to, n)
	}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Readiness]{
		"path": path,
		"post": func(to *dag.Readiness, n *yaml.Node) (err error) {
			to.Post, err = r.Text(n)
			return err
		},
		"headers": func(to *dag.Readiness, n *yaml.Node) (err error) {
			to.Headers, err = r.Texts(n, jobtext.CheckHeader)
			return err
		},
		"initialDelay": yamlfile.TextField(y, func(r *dag.Readiness) *time.Duration { return &r.InitialDelay },
			dag.ParseDuration),
		"timeout": yamlfile.TextField(y, func(r *dag.Readiness) *time.Duration { return &r.Timeout },
			dag.ParseDuration),
	}, to)
	if err == nil {
		err = fault.At(yamlfile.PositionOf(n), to.Check())
	}
	return err
}

// servicePlacement applies the placement rules of a service to all its replicas.
func (r *reader) servicePlacement(p taskPart, members []int) error {
	rules, err := r.readPlacement(p.rules, "")
	if err != nil {
		return err
	}
	for n, rule := range rules {
		path := jobtext.TaskPath(p.of) + ".placement"
		if p.rules.Kind == yaml.SequenceNode {
			path += fault.Index(n)
		}
		r.add(rule, members, rulePosition{yamlfile.PositionOf(p.rules), path})
	}
	return nil
}

// finishServices rejects tasks that wait for a service, and a deadline of a job that has a service.
func (r *reader) finishServices(doc *yaml.Node) error {
	j := r.job
	if err := j.CheckDeadline(); err != nil {
		n, _ := r.fieldOf(doc, "deadline")
		return fault.At(yamlfile.PositionOf(n), fault.Within("deadline", err))
	}
	task, edge, err := j.CheckServices()
	switch {
	case task < 0:
		return nil
	case edge >= 0:
		return r.linkError(edge, err)
	}
	return fault.At(r.origin.Tasks[task], fault.Within(fmt.Sprintf("tasks.%s.service", r.parts[task].path), err))
}
