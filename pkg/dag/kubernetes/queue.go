package kubernetes

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Queue is a Queue of Volcano, in the terms of Tradewind. Amounts are vCPUs and GiB of memory; 0 is no amount. Weight 0
// means 1.
type Queue struct {
	Name, Parent                          string
	Weight                                int
	MaxVCPU, DeservedVCPU, GuaranteedVCPU float64
	MaxGiB, DeservedGiB, GuaranteedGiB    float64
}

// Volcano's older annotations for the tree of queues.
const (
	hierarchy        = "volcano.sh/hierarchy"
	hierarchyWeights = "volcano.sh/hierarchy-weights"
)

// rootQueue is the queue above all others, which every cluster of Volcano has.
const rootQueue = "root"

// Queues reads a file of Volcano's Queues. The result has parents before their children. ok is false if the file has
// other objects, or no queue. Warnings are about fields that are ignored.
func Queues(name string, data []byte) (queues []Queue, warnings []string, ok bool, err error) {
	roots, from, err := yamlfile.Decode(data)
	if err != nil {
		return nil, nil, false, nil // the reader of jobs reports the error
	}
	for _, n := range roots {
		if !IsManifest(n) {
			return nil, nil, false, nil
		}
	}
	r := &reader{Reader: from, names: jobtext.NewNamer(0)}
	r.job, r.origin = dag.NewJob(name, dag.Kubernetes)
	docs, err := r.documents(roots)
	other := func(d *document) bool { return d.kind != "Queue" || d.group != "scheduling.volcano.sh" }
	if err != nil || len(docs) == 0 || slices.ContainsFunc(docs, other) {
		return nil, nil, false, nil
	}
	names := make(map[string]bool, len(docs))
	var all fault.Faults
	for _, d := range docs {
		if queues, err = r.addQueue(queues, names, d); !all.Add(err) {
			break
		}
	}
	if !all.None() {
		return nil, nil, true, fault.InFile(name, all.Err())
	}
	return parentsFirst(queues), r.job.Warnings, true, nil
}

// addQueue adds a queue and the parents that its annotations name. names are the names of queues.
func (r *reader) addQueue(queues []Queue, names map[string]bool, d *document) ([]Queue, error) {
	if d.name == "" {
		return queues, r.Fault(d.node, "has no name", "add metadata.name")
	}
	if err := jobtext.CheckName(d.name); err != nil {
		return queues, fault.Within("metadata", fault.Within("name", fault.At(yamlfile.PositionOf(d.meta.at), err)))
	}
	if names[d.name] {
		return queues, r.Fault(d.node, "there are two queues "+fault.Quote(d.name), "rename one")
	}
	q := Queue{Name: d.name}
	spec, err := r.field(d.node, "spec")
	if err != nil {
		return nil, err
	}
	if spec != nil {
		r.current = "Queue " + d.name
		if err := r.within("spec", func() error { return r.queueSpec(&q, spec) }); err != nil {
			return queues, fault.Within("spec", fault.At(yamlfile.PositionOf(spec), err))
		}
	}
	if path := d.meta.annotations[hierarchy]; path != "" {
		above, err := parentQueues(&q, path, d.meta.annotations[hierarchyWeights])
		if err != nil {
			err = fault.At(yamlfile.PositionOf(d.meta.at), err)
			return queues, fault.Within("metadata", fault.Within("annotations", err))
		}
		for _, a := range above {
			if !names[a.Name] {
				names[a.Name] = true
				queues = append(queues, a)
			}
		}
	}
	names[q.Name] = true
	return append(queues, q), nil
}

func (r *reader) queueSpec(q *Queue, n *yaml.Node) error {
	return readInto(r, n, fields[*Queue]{
		"weight": count(r, 0, 1<<30, func(q *Queue) *int { return &q.Weight }),
		"parent": func(q *Queue, n *yaml.Node) (err error) {
			if q.Parent, err = r.Text(n); err == nil {
				err = jobtext.CheckName(q.Parent)
			}
			return err
		},
		"capability": r.amounts(func(q *Queue) (vcpu, gib *float64) { return &q.MaxVCPU, &q.MaxGiB }),
		"deserved":   r.amounts(func(q *Queue) (vcpu, gib *float64) { return &q.DeservedVCPU, &q.DeservedGiB }),
		"guarantee": func(q *Queue, n *yaml.Node) error {
			return readInto(r, n, fields[*Queue]{
				"resource": r.amounts(
					func(q *Queue) (vcpu, gib *float64) { return &q.GuaranteedVCPU, &q.GuaranteedGiB },
				),
			}, q)
		},
		"reclaimable": func(_ *Queue, n *yaml.Node) error {
			if on, err := r.Boolean(n); err != nil || on {
				return err
			}
			r.warn(n, "is ignored: capacity above its share is reclaimed; set guarantee to keep it")
			return nil
		},
	}.with(silentlyIgnored[*Queue]("type")).
		with(ignored[*Queue](r, notActedOn, "affinity", "extendClusters", "priority", "dequeueStrategy")), q)
}

// amounts reads a list of resources. Queues limit vCPUs, memory and named accelerators, so other resources get a
// warning.
func (r *reader) amounts(to func(*Queue) (vcpu, gib *float64)) func(*Queue, *yaml.Node) error {
	return func(q *Queue, n *yaml.Node) error {
		entries, err := r.Mapping(n)
		if err != nil {
			return err
		}
		var all fault.Faults
		for _, e := range entries {
			vcpu, gib := to(q)
			amount, unit := vcpu, 1.0
			switch {
			case e.Key == "memory":
				amount, unit = gib, 1<<30
			case e.Key == "nvidia.com/gpu" || e.Key == "amd.com/gpu":
				r.job.Warn(yamlfile.PositionOf(e.Name), fault.Join(r.where(), fault.KeyElement(e.Key)),
					"does not name the GPU: add it to the command by its name, as in --max A100=8")
				continue
			case e.Key != "cpu":
				r.job.Warn(yamlfile.PositionOf(e.Name), fault.Join(r.where(), fault.KeyElement(e.Key)),
					"is ignored: queues limit vCPUs, memory and accelerators")
				continue
			}
			s, err := r.Text(e.Node)
			if err == nil {
				*amount, err = parseQuantity(s)
				*amount /= unit
			}
			all.Add(fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err)))
		}
		return all.Err()
	}
}

// parentQueues returns the parents of a queue by a path like root/eng/prod; their names are the paths to each. There is
// one weight for each step of the path, the last for the queue itself.
func parentQueues(q *Queue, path, weights string) (out []Queue, err error) {
	steps, given := strings.Split(path, "/"), strings.Split(weights, "/")
	if weights != "" && len(given) != len(steps) {
		return nil, fault.New(hierarchyWeights+" has "+strconv.Itoa(len(given))+" weights for "+
			strconv.Itoa(len(steps))+" steps", "one for each")
	}
	weight := func(i int) (int, error) {
		if weights == "" {
			return 0, nil
		}
		w, err := jobtext.ParseInt(given[i], 0, 1<<30)
		return w, fault.Within(hierarchyWeights, err)
	}
	for i := range steps {
		w, err := weight(i)
		if err != nil {
			return nil, err
		}
		if i == len(steps)-1 {
			q.Weight = w
			break
		}
		name := strings.Join(steps[:i+1], "-")
		if err := jobtext.CheckName(name); err != nil {
			return nil, fault.Within(hierarchy, err)
		}
		out = append(out, Queue{Name: name, Parent: q.Parent, Weight: w})
		q.Parent = name
	}
	return out, nil
}

// parentsFirst sorts queues so that each comes after its parent, if the file has the parent.
func parentsFirst(queues []Queue) (out []Queue) {
	if !slices.ContainsFunc(queues, func(q Queue) bool { return q.Name == rootQueue }) {
		for i := range queues {
			if queues[i].Parent == rootQueue {
				queues[i].Parent = ""
			}
		}
	}
	names, below := make(map[string]bool, len(queues)), map[string][]Queue{}
	for _, q := range queues {
		names[q.Name] = true
	}
	for _, q := range queues {
		if names[q.Parent] {
			below[q.Parent] = append(below[q.Parent], q)
		} else {
			out = append(out, q)
		}
	}
	for i := 0; i < len(out); i++ {
		out = append(out, below[out[i].Name]...)
		delete(below, out[i].Name)
	}
	for _, q := range queues { // the queues of a cycle, which is an error when they are set
		if _, left := below[q.Parent]; left {
			out = append(out, q)
		}
	}
	return out
}
