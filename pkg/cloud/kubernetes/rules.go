package kubernetes

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The labels of pods that rules of placement know them by: of each group that they are in, and of each label that their
// task has. Names and values are hashed, as a job file allows what a cluster does not.
const (
	groupLabel = "group.tradewind.dev/"
	knownLabel = "label.tradewind.dev/"
	jobLabel   = "tradewind.dev/job"
	marked     = "1"
)

// topologyKeys are the labels of nodes that say what they have in common on a level.
var topologyKeys = map[string]string{
	"zone": corev1.LabelTopologyZone, "rack": "topology.kubernetes.io/rack", "machine": corev1.LabelHostname,
}

// keepRules has the scheduler keep a pod to rules. At most so many in one place is a constraint of the topology with
// more places to come than there are pods: the emptiest then counts as having none, and the skew as how many there are.
func keepRules(p *corev1.Pod, spec cloud.LaunchSpec) {
	for k, v := range spec.KnownBy {
		p.Labels[knownLabel+hash(k+"="+v)] = marked
	}
	everywhere := &metav1.LabelSelector{} // in whatever namespace
	for _, r := range spec.Rules {
		switch {
		case r.Spread != "":
			p.Labels[groupLabel+hash(r.Group)] = marked
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				TopologyKey: topologyKeys[r.Spread],
				MaxSkew:     int32(min(r.Most, math.MaxInt32)), //nolint:gosec // bounded
				MinDomains:  new(int32(math.MaxInt32)), WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: inGroup(r.Group),
			})
		case r.Pack != "":
			p.Labels[groupLabel+hash(r.Group)] = marked
			near := p.Spec.Affinity.PodAffinity
			if near == nil {
				near = &corev1.PodAffinity{}
				p.Spec.Affinity.PodAffinity = near
			}
			near.RequiredDuringSchedulingIgnoredDuringExecution = append(
				near.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
					TopologyKey: topologyKeys[r.Pack], LabelSelector: inGroup(r.Group), NamespaceSelector: everywhere,
				})
		}
		for _, k := range slices.Sorted(maps.Keys(r.Apart)) {
			apart := p.Spec.Affinity.PodAntiAffinity
			if apart == nil {
				apart = &corev1.PodAntiAffinity{}
				p.Spec.Affinity.PodAntiAffinity = apart
			}
			known := &metav1.LabelSelector{MatchLabels: map[string]string{knownLabel + hash(k+"="+r.Apart[k]): marked}}
			if own := p.Labels[jobLabel]; own != "" { // tasks of one job are spread
				known.MatchExpressions = []metav1.LabelSelectorRequirement{
					{Key: jobLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{own}},
				}
			}
			apart.RequiredDuringSchedulingIgnoredDuringExecution = append(
				apart.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
					TopologyKey: topologyKeys[r.By], LabelSelector: known, NamespaceSelector: everywhere,
				})
		}
	}
}

func inGroup(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel + hash(name): marked}}
}
