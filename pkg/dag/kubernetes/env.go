package kubernetes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// envFrom reads variables from all keys of a ConfigMap or Secret.
func (r *reader) envFrom(c *container, n *yaml.Node) error {
	type source struct {
		prefix, kind, name string
		optional           bool
		at                 *yaml.Node
	}
	ref := func(kind string) func(*source, *yaml.Node) error {
		return func(s *source, n *yaml.Node) error {
			s.kind, s.at = kind, n
			return readInto(r, n, fields[*source]{
				"name":     text(r, func(s *source) *string { return &s.name }),
				"optional": truth(r, func(s *source) *bool { return &s.optional }),
			}, s)
		}
	}
	return r.list(n, func(_ int, n *yaml.Node) error {
		s := &source{}
		err := readInto(r, n, fields[*source]{
			"prefix":       text(r, func(s *source) *string { return &s.prefix }),
			"configMapRef": ref("ConfigMap"), "secretRef": ref("Secret"),
		}, s)
		if err != nil || s.kind == "" {
			return err
		}
		of := r.referenced.configs
		if s.kind == "Secret" {
			of = r.referenced.secrets
		}
		values, ok := of[s.name]
		switch {
		case !ok && s.optional:
			return nil
		case !ok:
			return r.Fault(s.at, "there is no "+s.kind+" "+fault.Quote(s.name)+" in the file",
				"put it into the same file, after a line ---")
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			name := s.prefix + key
			if jobtext.CheckEnvName(name) != nil {
				r.warn(s.at, fault.Quote(name)+" is not a valid variable name, so it is left out")
				continue
			}
			v := podtext.Plain(values[key])
			if err := r.addVariable(c, s.at, name, v, s.kind == "Secret", values[key]); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxVariables limits the variables of a container, because each is compared with all others.
const maxVariables = 2_000

// addVariable adds a variable to a container, in place of one with the same name. The value of a secret is kept apart
// from the job (see dag.Job.AddSecretValue). A name that is also a secret of the caller is rejected after the whole
// file has been read.
func (r *reader) addVariable(c *container, n *yaml.Node, name string, v podtext.Value, secret bool,
	stated string) error {
	if secret && stated != "" {
		if err := r.job.AddSecretValue(name, stated); err != nil {
			return fault.At(yamlfile.PositionOf(n), err)
		}
	}
	if !secret && slices.ContainsFunc(r.given, func(v podtext.Variable) bool { return v.Name == name }) {
		return nil
	}
	switch size := v.Size(); {
	case size > dag.MaxEnvBytes:
		return fault.At(yamlfile.PositionOf(n), fault.OverLimit(
			fmt.Sprintf("has %d bytes with the variables in it, more than %d", size, dag.MaxEnvBytes), ""))
	case len(c.env) == maxVariables:
		return fault.At(
			yamlfile.PositionOf(n),
			fault.OverLimit(fmt.Sprintf("more than %d variables", maxVariables), ""),
		)
	}
	c.env = slices.DeleteFunc(c.env, func(other podtext.Variable) bool { return other.Name == name })
	c.env = append(c.env, podtext.Variable{Name: name, Value: v, Secret: secret})
	return nil
}

// entry is an element of a list of variables.
type entry struct {
	name  string
	value *string
	from  *yaml.Node
}

func (r *reader) env(p *pod, c *container, n *yaml.Node) error {
	return r.list(n, func(_ int, n *yaml.Node) error {
		e := &entry{}
		err := readInto(r, n, fields[*entry]{
			"name": func(e *entry, n *yaml.Node) (err error) {
				if e.name, err = r.Text(n); err == nil {
					err = jobtext.CheckEnvName(e.name)
				}
				return err
			},
			"value": func(e *entry, n *yaml.Node) error {
				s, err := r.Text(n)
				e.value = &s
				return err
			},
			"valueFrom": func(e *entry, n *yaml.Node) error { e.from = n; return nil },
		}, e)
		switch {
		case err != nil:
			return err
		case e.name == "":
			return r.missing(n, "name", "add the name of the variable")
		case e.from != nil:
			err := r.within("valueFrom", func() error { return r.valueFrom(p, c, e.name, e.from) })
			return fault.Within("valueFrom", fault.At(yamlfile.PositionOf(e.from), err))
		case e.value == nil:
			return r.addVariable(c, n, e.name, podtext.Plain(""), false, "")
		}
		return r.addVariable(c, n, e.name, podtext.Expand(*e.value, c.env), false, "")
	})
}

// reference is the source of a value.
type reference struct {
	name, key, path, resource, divisor string
	optional                           bool
}

func (r *reader) valueFrom(p *pod, c *container, name string, n *yaml.Node) error {
	ref := fields[*reference]{
		"name": text(r, func(f *reference) *string { return &f.name }),
		"key": text(
			r,
			func(f *reference) *string { return &f.key },
		), "optional": truth(r, func(f *reference) *bool { return &f.optional }),
		"fieldPath": text(r, func(f *reference) *string { return &f.path }), "apiVersion": nil,
		"resource": text(r, func(f *reference) *string { return &f.resource }), "containerName": nil,
		"divisor": text(r, func(f *reference) *string { return &f.divisor }),
	}
	read := func(do func(*reference, *yaml.Node) error) func(*pod, *yaml.Node) error {
		return func(_ *pod, n *yaml.Node) error {
			f := &reference{}
			if err := readInto(r, n, ref, f); err != nil {
				return err
			}
			return do(f, n)
		}
	}
	return readInto(r, n, fields[*pod]{
		"configMapKeyRef": read(func(f *reference, n *yaml.Node) error {
			v, ok, err := r.from(r.referenced.configs, "ConfigMap", f.name, f.key, n)
			if !ok {
				if f.optional {
					return nil
				}
				return err
			}
			return r.addVariable(c, n, name, podtext.Plain(v), false, "")
		}),
		"secretKeyRef": read(func(f *reference, n *yaml.Node) error {
			v, _, err := r.from(r.referenced.secrets, "Secret", f.name, f.key, n)
			if err != nil && f.optional {
				return nil
			}
			if err != nil {
				r.warn(n, "is from a Secret that is not in the file: give it with --secret "+name)
			}
			return r.addVariable(c, n, name, nil, true, v)
		}),
		"fieldRef": read(func(f *reference, n *yaml.Node) error {
			v, err := r.fieldOf(p, f.path, n)
			if err != nil {
				return err
			}
			return r.addVariable(c, n, name, v, false, "")
		}),
		"resourceFieldRef": read(func(f *reference, n *yaml.Node) error {
			v, err := r.resourceOf(p, f, n)
			if err != nil {
				return err
			}
			return r.addVariable(c, n, name, v, false, "")
		}),
	}.with(unsupported[*pod](r, "is not supported", "", "fileKeyRef")), p)
}

// fieldOf returns the value of a field of the pod itself.
func (r *reader) fieldOf(p *pod, path string, n *yaml.Node) (podtext.Value, error) {
	if kind, key, ok := strings.Cut(strings.TrimSuffix(path, "']"), "['"); ok {
		switch key {
		case "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
			"training.kubeflow.org/replica-index", "volcano.sh/task-index":
			return podtext.Value{{Fact: podtext.Index}}, nil
		case "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index":
			return podtext.Value{{Fact: podtext.Job}}, nil
		}
		of := map[string]map[string]string{
			"metadata.labels": p.meta.labels, "metadata.annotations": p.meta.annotations,
		}[kind]
		if v, ok := of[key]; ok {
			return podtext.Plain(v), nil
		}
		return nil, r.Fault(n, "the field is not supported: "+fault.Quote(path),
			"the index of a job's pods is metadata.annotations['batch.kubernetes.io/job-completion-index']")
	}
	switch path {
	case "metadata.name", "metadata.uid":
		return podtext.Value{{Fact: podtext.Name}}, nil
	case "metadata.namespace":
		if p.meta.namespace != "" {
			return podtext.Plain(p.meta.namespace), nil
		}
		return podtext.Plain("default"), nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return podtext.Value{{Fact: podtext.Address}}, nil
	case "spec.nodeName":
		return podtext.Value{{Fact: podtext.Machine}}, nil
	case "spec.serviceAccountName":
		return podtext.Plain("default"), nil
	}
	return nil, r.Fault(n, "the field is not supported: "+fault.Quote(path), "")
}

// resourceOf returns an amount that the container requests.
func (r *reader) resourceOf(p *pod, f *reference, n *yaml.Node) (podtext.Value, error) {
	divisor := 1.0
	if f.divisor != "" && f.divisor != "0" {
		var err error
		if divisor, err = parseQuantity(f.divisor); err != nil || divisor == 0 {
			return nil, fault.Within(
				"divisor",
				r.Fault(n, fault.Quote(f.divisor)+" is not a divisor", "write 1, 1m or 1Mi"),
			)
		}
	}
	amount := 0.0
	if len(p.resources) > 0 {
		switch res := p.resources[0]; strings.TrimPrefix(strings.TrimPrefix(f.resource, "limits."), "requests.") {
		case "cpu":
			amount = res.CPUs.Min
		case "memory":
			amount = res.Memory.Min * (1 << 30)
		case "ephemeral-storage":
			amount = float64(res.DiskGiB) * (1 << 30)
		}
	}
	if amount == 0 {
		return nil, r.Fault(n, "the container does not request "+f.resource, "add resources.requests")
	}
	return podtext.Plain(strconv.FormatFloat(math.Ceil(amount/divisor), 'f', -1, 64)), nil
}
