package kubernetes

import (
	"encoding/base64"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// referenced has the objects of the file that workloads refer to, by name.
type referenced struct {
	configs    map[string]map[string]string
	secrets    map[string]map[string]string
	priorities map[string]int
	templates  map[string]*document // JobTemplates
	runtimes   map[string]*document // TrainingRuntimes
	podGroups  map[string]*podGroup // Volcano's
	inOrder    []*podGroup
}

// isReferencedKind reports whether an object is of a kind that workloads refer to.
func (r *reader) isReferencedKind(d *document) bool {
	kinds := map[string][]string{
		"": {"ConfigMap", "Secret", "Service", "Namespace", "ServiceAccount"}, "scheduling.k8s.io": {"PriorityClass"},
		"kueue.x-k8s.io": {"WorkloadPriorityClass"},
		flowGroup:        {"JobTemplate"}, trainerGroup: {"TrainingRuntime", "ClusterTrainingRuntime"},
		schedulingGroup: {"PodGroup"},
	}
	return slices.Contains(kinds[d.group], d.kind)
}

// keepReferenced records an object that other objects of the file may name.
func (r *reader) keepReferenced(d *document) error {
	b := &r.referenced
	switch {
	case d.group == "" && d.kind == "ConfigMap":
		data, err := r.data(d.node, false)
		put(&b.configs, d.name, data)
		return err
	case d.group == "" && d.kind == "Secret":
		data, err := r.data(d.node, true)
		put(&b.secrets, d.name, data)
		return err
	case d.kind == "PriorityClass", d.kind == "WorkloadPriorityClass":
		return r.priorityClass(d)
	case d.group == schedulingGroup && d.kind == "PodGroup":
		return r.keepPodGroup(d)
	case d.group == flowGroup && d.kind == "JobTemplate":
		put(&b.templates, d.name, d)
	case d.group == trainerGroup && strings.HasSuffix(d.kind, "TrainingRuntime"):
		put(&b.runtimes, d.name, d)
	}
	return nil
}

func put[V any](to *map[string]V, name string, v V) {
	if *to == nil {
		*to = map[string]V{}
	}
	(*to)[name] = v
}

// data reads the values of a ConfigMap or of a Secret.
func (r *reader) data(n *yaml.Node, secret bool) (map[string]string, error) {
	values := map[string]string{}
	merge := func(n *yaml.Node, encoded bool) error {
		given, err := r.texts(n)
		for name, v := range given {
			if encoded {
				raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v), ""))
				if err != nil {
					return fault.WithinKey(name, fault.New("is not base64", "write the text itself below stringData"))
				}
				v = string(raw)
			}
			values[name] = v
		}
		return err
	}
	known := fields[*document]{
		"data":       func(_ *document, n *yaml.Node) error { return merge(n, secret) },
		"binaryData": func(_ *document, n *yaml.Node) error { return merge(n, true) },
	}
	if secret {
		known["stringData"] = func(_ *document, n *yaml.Node) error { return merge(n, false) }
	}
	return values, readInto(
		r,
		n,
		known.with(silentlyIgnored[*document]("apiVersion", "kind", "metadata", "type", "immutable")),
		nil,
	)
}

func (r *reader) priorityClass(d *document) error {
	value := 0
	err := readInto(r, d.node, fields[*int]{
		"value": func(to *int, n *yaml.Node) error {
			s, err := r.Text(n)
			if err != nil {
				return err
			}
			*to, err = jobtext.ParseInt(s, -1e9, 1e9)
			return err
		},
	}.with(silentlyIgnored[*int](
		"apiVersion", "kind", "metadata", "globalDefault", "description", "preemptionPolicy")), &value)
	put(&r.referenced.priorities, d.name, max(min(value, dag.MaxPriority), -dag.MaxPriority))
	return err
}

// setPriority sets the workload's priority to that of a PriorityClass, if it is higher.
func (r *reader) setPriority(n *yaml.Node) error {
	name, err := r.Text(n)
	if err != nil {
		return err
	}
	r.usePriority(name, n)
	return nil
}

func (r *reader) usePriority(name string, n *yaml.Node) {
	value, ok := r.referenced.priorities[name]
	if !ok {
		r.warn(n, "is ignored: there is no PriorityClass "+fault.Quote(name)+" in the file")
		return
	}
	r.asks.priority = max(r.asks.priority, value)
}

// from returns a value of a ConfigMap or Secret of the file.
func (r *reader) from(of map[string]map[string]string, kind, name, key string, n *yaml.Node) (string, bool, error) {
	values, ok := of[name]
	if !ok {
		return "", false, r.Fault(n, "there is no "+kind+" "+fault.Quote(name)+" in the file",
			"put it into the same file, after a line ---")
	}
	v, ok := values[key]
	if !ok {
		return "", false, r.Fault(n, kind+" "+fault.Quote(name)+" has no key "+fault.Quote(key), "")
	}
	return v, true, nil
}

// metadataOf returns a function that reads the metadata of a template.
func metadataOf[T any](r *reader, to func(T) *metadata) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) error {
		if yamlfile.IsNull(n) {
			return nil
		}
		return r.metadata(to(into), n)
	}
}
