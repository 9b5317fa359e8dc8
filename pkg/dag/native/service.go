package native

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/internal/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A task with a service is written down once for all of its replicas. With more than one it is read as a task for each,
// named TASK.N, and its rules of placement are about all of them.

// fieldOf is the entry of a mapping with a key; nil where there is none, or no mapping.
func (r *reader) fieldOf(n *yaml.Node, key string) (*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil // an error that the reader of the whole has better words for
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

// replicasOf are the tasks that a task with a service becomes; nil of one without.
func (r *reader) replicasOf(e yamlfile.Entry) ([]part, error) {
	service, err := r.fieldOf(e.Node, "service")
	if err != nil || service == nil {
		return nil, err
	}
	one := part{name: e.Key, path: e.Key, entry: e, service: true}
	replicas, err := r.fieldOf(service, "replicas")
	if err != nil || replicas == nil {
		return []part{one}, err
	}
	text, err := r.Text(replicas)
	if err != nil {
		return nil, fault.Within("service", fault.Within("replicas", err))
	}
	n, err := dag.ParseInt(text, 1, dag.MaxReplicas)
	if of, _ := r.fieldOf(service, "of"); err == nil && of != nil {
		err = fault.New("stands beside of: the task is one of the replicas then", "leave one of the two out")
	}
	if err != nil {
		return nil, fault.Within("service", fault.Within("replicas", fault.At(yamlfile.PositionOf(replicas), err)))
	}
	if n == 1 {
		return []part{one}, nil
	}
	if one.rules, err = r.fieldOf(e.Node, "placement"); err != nil {
		return nil, err
	}
	parts := make([]part, n)
	for i := range parts {
		parts[i] = one
		parts[i].name, parts[i].of = e.Key+roleMark+strconv.Itoa(i), e.Key
	}
	return parts, nil
}

// whole is the name of the task of the file that a part is one of several of; empty where it is all of it.
func (p *part) whole() string {
	if p.outer != nil {
		return p.outer.Key
	}
	return p.of
}

// readReplica reads a replica of a service. What defaults say of work that ends is not about it.
func (r *reader) readReplica(t *dag.Task, p part) error {
	t.Time, t.Checkpoint, t.Retries = dag.TimeEstimate{}, nil, 0
	fields := r.taskFields
	if p.of != "" {
		fields = maps.Clone(fields)
		fields["placement"] = func(*dag.Task, *yaml.Node) error { return nil } // of all of them: finishPlacement
	}
	if err := yamlfile.ReadFields(&r.Reader, p.entry.Node, fields, t); err != nil {
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

// positionIn is where the field of a task stands that an error is about, or else the task.
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
		"replicas": func(*dag.Service, *yaml.Node) error { return nil }, // read before: replicasOf
		"of": yamlfile.TextField(y, func(s *dag.Service) *string { return &s.Of },
			yamlfile.Checked(dag.CheckName)),
		"port": yamlfile.TextField(y, func(s *dag.Service) *int { return &s.Port }, func(s string) (int, error) {
			return dag.ParseInt(s, 1, 65535)
		}),
		"readiness": r.readReadiness,
	}, s)
}

// readReadiness reads how readiness is found out: a path alone, or a mapping.
func (r *reader) readReadiness(s *dag.Service, n *yaml.Node) error {
	y, to := &r.Reader, &s.Readiness
	path := yamlfile.TextField(y, func(r *dag.Readiness) *string { return &r.Path },
		yamlfile.Checked(dag.CheckProbePath))
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
			to.Headers, err = r.Texts(n, dag.CheckHeader)
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

// servicePlacement has the rules of a service be about all its replicas.
func (r *reader) servicePlacement(p part, members []int) error {
	rules, err := r.readPlacement(p.rules, "")
	if err != nil {
		return err
	}
	for n, rule := range rules {
		path := dag.TaskPath(p.of) + ".placement"
		if p.rules.Kind == yaml.SequenceNode {
			path += fault.Index(n)
		}
		r.add(rule, members, ruled{yamlfile.PositionOf(p.rules), path})
	}
	return nil
}

// finishServices refuses what waits for a service, and a deadline of a job that has one.
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
