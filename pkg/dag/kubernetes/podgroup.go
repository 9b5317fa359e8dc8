package kubernetes

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/internal/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// schedulingGroup has Volcano's Queues and PodGroups.
const schedulingGroup = "scheduling.volcano.sh"

// podGroup is a PodGroup of Volcano's: pods that say so start together.
type podGroup struct {
	d     *document
	least int        // of its pods that start together
	at    *yaml.Node // of least
	pods  []*role
}

// keepPodGroup reads a PodGroup for the pods that name it.
func (r *reader) keepPodGroup(d *document) error {
	g := &podGroup{d: d}
	spec, err := r.field(d.node, "spec")
	if err != nil {
		return err
	}
	r.current = d.kind + " " + d.name
	if spec != nil {
		err := r.within("spec", func() error {
			return readInto(r, spec, fields[*podGroup]{
				"minMember": func(g *podGroup, n *yaml.Node) error {
					g.at = n
					return count(r, 0, maxPods, func(g *podGroup) *int { return &g.least })(g, n)
				},
				"queue": func(_ *podGroup, n *yaml.Node) error {
					s, err := r.Text(n)
					r.setQueue(s)
					return err
				},
				"priorityClassName": func(_ *podGroup, n *yaml.Node) error { return r.takePriority(n) },
			}.with(passed[*podGroup]("minResources")).
				with(ignored[*podGroup](r, notActedOn, "minTaskMember", "networkTopology", "subGroupPolicy")), g)
		})
		if err != nil {
			return fault.Within("spec", fault.At(yamlfile.PositionOf(spec), err))
		}
	}
	put(&r.beside.podGroups, d.name, g)
	r.beside.inOrder = append(r.beside.inOrder, g)
	return nil
}

// inPodGroup adds a pod to the PodGroup of the file that it names, if it names one.
func (r *reader) inPodGroup(d *document, pod *role) bool {
	for _, name := range []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"} {
		if g := r.beside.podGroups[d.meta.annotations[name]]; g != nil {
			g.pods = append(g.pods, pod)
			return true
		}
	}
	return false
}

// addPodGroups adds the pods of each PodGroup: together, or each by itself where one of them is enough.
func (r *reader) addPodGroups() error {
	for _, g := range r.beside.inOrder {
		if len(g.pods) == 0 {
			continue // of pods that others make
		}
		if g.least > len(g.pods) {
			return fault.Within("spec", fault.Within("minMember", r.Fault(g.at,
				fmt.Sprintf("is %d, and pods of the group in the file are %d", g.least, len(g.pods)),
				"add the others")))
		}
		if len(g.pods) > dag.MaxGang && g.least > 1 {
			return fault.Within("spec", r.Fault(g.d.node, fmt.Sprintf("%d pods, each of its own kind, are more "+
				"than %d that can start together", len(g.pods), dag.MaxGang), "write a Job with replicas"))
		}
		if g.least > 1 && g.least < len(g.pods) {
			r.job.Warn(yamlfile.PositionOf(g.at), "spec.minMember", "is not acted on: all pods start together")
		}
		before := len(r.job.Tasks)
		for _, p := range g.pods {
			one := &group{name: p.called, roles: []*role{p}, array: true, at: p.at, path: p.path}
			if err := r.addGroups([]*group{one}); err != nil {
				return err
			}
		}
		for i := before; i < len(r.job.Tasks) && g.least > 1; i++ {
			t := &r.job.Tasks[i]
			t.Gang = dag.ToName(g.d.name, "gang")
		}
	}
	return nil
}
