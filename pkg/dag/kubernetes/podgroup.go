package kubernetes

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// schedulingGroup is the API group of Volcano's Queues and PodGroups.
const schedulingGroup = "scheduling.volcano.sh"

// podGroup is a PodGroup of Volcano: the pods that name it start together.
type podGroup struct {
	d     *document
	least int        // minMember: the number of its pods that start together
	at    *yaml.Node // of least
	pods  []*role

	queue, priority *yaml.Node // of its pods; nil if they have none
}

// keepPodGroup reads a PodGroup.
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
				"queue":             func(g *podGroup, n *yaml.Node) error { g.queue = n; return nil },
				"priorityClassName": func(g *podGroup, n *yaml.Node) error { g.priority = n; return nil },
			}.with(silentlyIgnored[*podGroup]("minResources")).
				with(ignored[*podGroup](r, notActedOn, "minTaskMember", "networkTopology", "subGroupPolicy")), g)
		})
		if err != nil {
			return fault.Within("spec", fault.At(yamlfile.PositionOf(spec), err))
		}
	}
	put(&r.referenced.podGroups, d.name, g)
	r.referenced.inOrder = append(r.referenced.inOrder, g)
	return nil
}

// inPodGroup adds a pod to the PodGroup that it names, and gives it the queue and priority of the PodGroup. It
// returns false if the pod names no PodGroup of the file.
func (r *reader) inPodGroup(d *document, pod *role) (in bool, err error) {
	for _, name := range []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"} {
		if g := r.referenced.podGroups[d.meta.annotations[name]]; g != nil {
			g.pods = append(g.pods, pod)
			if g.queue != nil {
				s, err := r.Text(g.queue)
				if err == nil {
					err = r.setQueue(s, g.queue)
				}
				if err != nil {
					return true, err
				}
			}
			if g.priority != nil {
				return true, r.setPriority(g.priority)
			}
			return true, nil
		}
	}
	return false, nil
}

// addPodGroups adds the pods of each PodGroup: as a gang, or separately if minMember is at most one.
func (r *reader) addPodGroups() error {
	for _, g := range r.referenced.inOrder {
		if len(g.pods) == 0 {
			continue // controllers of the cluster make its pods
		}
		if g.least > len(g.pods) {
			return fault.Within("spec", fault.Within("minMember", r.Fault(g.at,
				fmt.Sprintf("is %d, but the file has only %d pods of the group", g.least, len(g.pods)),
				"add the others")))
		}
		if len(g.pods) > dag.MaxGang && g.least > 1 {
			return fault.Within("spec", r.Fault(g.d.node, fmt.Sprintf("%d different pods are more "+
				"than the %d that can start together", len(g.pods), dag.MaxGang), "write a Job with replicas"))
		}
		if g.least > 1 && g.least < len(g.pods) {
			r.job.Warn(yamlfile.PositionOf(g.at), "spec.minMember", "is ignored: all pods start together")
		}
		before := len(r.job.Tasks)
		for _, p := range g.pods {
			one := &group{name: p.called, roles: []*role{p}, independent: true, at: p.at, path: p.path}
			if err := r.addGroups([]*group{one}); err != nil {
				return err
			}
		}
		for i := before; i < len(r.job.Tasks) && g.least > 1; i++ {
			t := &r.job.Tasks[i]
			t.Gang = jobtext.ToName(g.d.name, "gang")
		}
	}
	return nil
}
