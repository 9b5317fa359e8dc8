package skypilot

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// skyService is the service section of a task.
type skyService struct {
	dag.Service
	at       *yaml.Node
	replicas int
	least    int // min_replicas of its replica_policy
	more     int // num_overprovision of its replica_policy
	policyAt *yaml.Node
}

// readService reads a service section. SkyPilot scales between two limits by the requests that its load balancer
// counts; here the lower number always runs, with a warning.
func (r *reader) readService(t *skyTask, n *yaml.Node) error {
	y := &r.Reader
	s := &skyService{at: n}
	count := func(to func(*skyService) *int) func(*skyService, *yaml.Node) error {
		return yamlfile.TextField(y, to,
			func(s string) (int, error) { return jobtext.ParseInt(s, 1, jobtext.MaxReplicas) })
	}
	ignored := func(field string) func(*skyService, *yaml.Node) error {
		return func(_ *skyService, n *yaml.Node) error {
			r.job.Warn(yamlfile.PositionOf(n), "service."+field, notActedOn)
			return nil
		}
	}
	refused := func(why, instead string) func(*skyService, *yaml.Node) error {
		return func(_ *skyService, n *yaml.Node) error { return r.Fault(n, why, instead) }
	}
	known := yamlfile.Fields[*skyService]{
		"replicas": count(func(s *skyService) *int { return &s.replicas }),
		"ports":    yamlfile.TextField(y, func(s *skyService) *int { return &s.Port }, parsePort),
		"readiness_probe": func(s *skyService, n *yaml.Node) error {
			return r.readProbe(&s.Readiness, n)
		},
		"replica_policy": func(s *skyService, n *yaml.Node) error {
			s.policyAt = n
			return r.readPolicy(s, n, count(func(s *skyService) *int { return &s.least }))
		},
		"load_balancing_policy": ignored("load_balancing_policy"),
		"load_balancer": func(s *skyService, n *yaml.Node) error {
			return yamlfile.ReadFields(y, n, yamlfile.Fields[*skyService]{
				"stream_timeout_seconds": ignored("load_balancer.stream_timeout_seconds"),
			}, s)
		},
		"tls":     refused("requests are not encrypted", "put a proxy with the certificate before the service"),
		"pool":    refused(poolMissing, poolInstead),
		"workers": refused(poolMissing, poolInstead),
	}
	for field, read := range known { // a field without a value counts as missing
		known[field] = func(s *skyService, n *yaml.Node) error {
			if yamlfile.IsNull(n) {
				return nil
			}
			return read(s, n)
		}
	}
	if err := yamlfile.ReadFields(y, n, known, s); err != nil {
		return err
	}
	switch {
	case s.replicas > 0 && s.least > 0:
		return fault.Within(
			"replica_policy",
			r.Fault(s.policyAt, "cannot be combined with replicas", "leave one of the two out"),
		)
	case s.replicas == 0:
		s.replicas = max(s.least, 1) + s.more
	}
	if s.replicas > jobtext.MaxReplicas {
		return fault.OverLimit(fmt.Sprintf("%d replicas, more than %d", s.replicas, jobtext.MaxReplicas), "")
	}
	t.service = s
	return nil
}

const (
	poolMissing = "a pool of workers is not a service"
	poolInstead = "submit a job for each piece of work: machines are shared by all jobs"
)

// readPolicy reads the limits of the scaling of a service. What concerns only the scaling by load has no effect.
func (r *reader) readPolicy(s *skyService, n *yaml.Node, least func(*skyService, *yaml.Node) error) error {
	byLoad := func(field string) func(*skyService, *yaml.Node) error {
		return func(_ *skyService, n *yaml.Node) error {
			r.job.Warn(yamlfile.PositionOf(n), "service.replica_policy."+field,
				"is ignored: there is no scaling by load, and min_replicas replicas run")
			return nil
		}
	}
	known := yamlfile.Fields[*skyService]{
		"min_replicas": func(s *skyService, n *yaml.Node) error {
			if n.Value == "0" {
				return r.Fault(
					n,
					"a service cannot scale to zero replicas",
					"write 1, and end the service with tradewind cancel",
				)
			}
			return least(s, n)
		},
		"num_overprovision": yamlfile.TextField(&r.Reader, func(s *skyService) *int { return &s.more },
			func(s string) (int, error) { return jobtext.ParseInt(s, 0, jobtext.MaxReplicas) }),
		"dynamic_ondemand_fallback": func(_ *skyService, n *yaml.Node) error {
			on, err := r.Boolean(n)
			if err == nil && on {
				err = r.Fault(n, "on-demand machines do not stand in for spot machines",
					"write resources: {any_of: [{use_spot: true}, {use_spot: false}]}")
			}
			return err
		},
		"base_ondemand_fallback_replicas": func(_ *skyService, n *yaml.Node) error {
			if n.Value == "0" {
				return nil
			}
			return r.Fault(n, "all replicas have the same resources", "write a second service with use_spot: false")
		},
	}
	for _, field := range []string{"max_replicas", "target_qps_per_replica", "spot_placer", "upscale_delay_seconds",
		"downscale_delay_seconds"} {
		known[field] = byLoad(field)
	}
	return yamlfile.ReadFields(&r.Reader, n, known, s)
}

func parsePort(s string) (int, error) { return jobtext.ParseInt(s, 1, 65535) }

// parseSeconds reads a number of seconds.
func parseSeconds(s string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(seconds):
		return 0, fault.New(fault.Quote(s)+" is not a number of seconds", "")
	case seconds <= 0:
		return 0, fault.New("must be more than 0 seconds", "leave it out for the default")
	case seconds > dag.MaxDuration.Seconds():
		return 0, fault.New("is more than "+dag.FormatDuration(dag.MaxDuration), "")
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// readProbe reads a readiness probe: a path, or a mapping.
func (r *reader) readProbe(to *dag.Readiness, n *yaml.Node) error {
	y := &r.Reader
	path := yamlfile.TextField(y, func(r *dag.Readiness) *string { return &r.Path },
		yamlfile.Checked(jobtext.CheckProbePath))
	if n.Kind == yaml.ScalarNode {
		return path(to, n)
	}
	later := func(field string) func(*dag.Readiness, *yaml.Node) error {
		return func(_ *dag.Readiness, n *yaml.Node) error {
			r.job.Warn(yamlfile.PositionOf(n), "service.readiness_probe."+field, notActedOn)
			return nil
		}
	}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Readiness]{
		"path":                                  path,
		"endpoint_probe_interval_seconds":       later("endpoint_probe_interval_seconds"),
		"consecutive_failure_threshold_timeout": later("consecutive_failure_threshold_timeout"),
		"initial_delay_seconds": yamlfile.TextField(
			y,
			func(r *dag.Readiness) *time.Duration { return &r.InitialDelay },
			parseSeconds,
		),
		"timeout_seconds": yamlfile.TextField(y, func(r *dag.Readiness) *time.Duration { return &r.Timeout },
			parseSeconds),
		"post_data": r.readPost,
		"headers": func(to *dag.Readiness, n *yaml.Node) (err error) {
			to.Headers, err = r.Texts(n, jobtext.CheckHeader)
			return err
		},
	}, to)
	if err == nil && to.Path == "" {
		err = fault.Within("path", r.Fault(n, "is missing", "add the path of the request, such as /health"))
	}
	if err == nil {
		err = fault.At(yamlfile.PositionOf(n), to.Check())
	}
	return err
}

// readPost reads the body that a probe posts: text, or a value that is sent as JSON.
func (r *reader) readPost(to *dag.Readiness, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s, err := r.Text(n)
		to.Post = s
		return err
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return r.Fault(n, "cannot be sent as JSON", "")
	}
	body, err := json.Marshal(value)
	if err != nil {
		return r.Fault(n, "cannot be sent as JSON", "")
	}
	to.Post = string(body)
	if to.Headers == nil {
		to.Headers = map[string]string{"Content-Type": "application/json"}
	}
	return nil
}

// readPorts records the ports of resources; a service listens on the first.
func (r *reader) readPorts(t *skyTask, n *yaml.Node) error {
	if t.portsAt == nil && !yamlfile.IsNull(n) {
		t.portsAt = n
	}
	return nil
}

// replicas returns the tasks of a document: one, or one for each replica of a service.
func (r *reader) replicas(t *skyTask) ([]dag.Task, error) {
	s := t.service
	if s == nil {
		if t.portsAt != nil {
			r.job.Warn(yamlfile.PositionOf(t.portsAt), "resources.ports", notActedOn)
		}
		return []dag.Task{t.Task}, nil
	}
	if n := t.portsAt; n != nil && s.Port == 0 {
		if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
			if len(n.Content) > 1 {
				r.job.Warn(yamlfile.PositionOf(n), "resources.ports", "the service listens on the first")
			}
			n = n.Content[0]
		}
		text, err := r.Text(n)
		if err == nil {
			s.Port, err = parsePort(text)
		}
		if err != nil {
			return nil, fault.Within("resources", fault.Within("ports", fault.At(yamlfile.PositionOf(n), err)))
		}
	}
	if s.Port == 0 {
		return nil, fault.Within(
			"service",
			r.Fault(s.at, "has no port", "add the port on which it listens: resources.ports"),
		)
	}
	t.Service, t.Retries = &s.Service, 0
	s.Of = t.Name
	if err := t.CheckService(); err != nil {
		return nil, fault.At(yamlfile.PositionOf(t.at), err)
	}
	if s.replicas == 1 {
		return []dag.Task{t.Task}, nil
	}
	out := make([]dag.Task, s.replicas)
	for i := range out {
		out[i] = t.Task
		out[i].Name = r.names.Name(t.Name+"."+strconv.Itoa(i), "task")
	}
	return out, nil
}

// chain makes each task wait for the previous one and read its outputs.
func (r *reader) chain() error {
	j := r.job
	sizes := dag.NewOutputSizes(j)
	for i := 1; i < len(r.docs); i++ {
		before := r.docs[i-1][0]
		if j.Tasks[before].Service != nil {
			return j.AtTask(r.docs[i][0], fault.New("comes after a service, which never ends by itself",
				"write the service last"))
		}
		data, err := sizes.Total(before, nil)
		if err != nil {
			return j.AtTask(before, fault.Within("outputs", err))
		}
		for _, to := range r.docs[i] {
			j.Edges = append(j.Edges, dag.Edge{From: before, To: to, Data: data})
		}
	}
	return nil
}
