package kubernetes

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Labels of pods for placement rules: one for each group that a pod is in, and one for each label of its task. Names
// and values are hashed, because a job file allows characters that a cluster does not.
const (
	groupLabel = "group.tradewind.dev/"
	knownLabel = "label.tradewind.dev/"
	jobLabel   = "tradewind.dev/job"
	marked     = "1"
)

// topologyKeys are the labels of nodes for each level of a rule.
var topologyKeys = map[string]string{
	"zone": corev1.LabelTopologyZone, "rack": "topology.kubernetes.io/rack", "machine": corev1.LabelHostname,
}

// keepRules adds the placement rules to a pod. A spread rule becomes a topology spread constraint with a MinDomains
// that is larger than any number of pods. The scheduler then counts zero pods in the emptiest domain, so MaxSkew
// limits the pods in each domain.
func keepRules(p *corev1.Pod, spec cloud.LaunchSpec) {
	for k, v := range spec.KnownBy {
		p.Labels[knownLabel+hash(k+"="+v)] = marked
	}
	everywhere := &metav1.LabelSelector{} // all namespaces
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
			if own := p.Labels[jobLabel]; own != "" { // tasks of the same job do not repel each other
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
