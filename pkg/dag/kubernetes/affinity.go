package kubernetes

import (
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// topologyLevels are the labels of nodes by which pods are spread and packed.
var topologyLevels = map[string]dag.Level{
	"kubernetes.io/hostname": dag.LevelMachine, "topology.kubernetes.io/rack": dag.LevelRack,
	"topology.kubernetes.io/zone": dag.LevelZone, "topology.kubernetes.io/region": dag.LevelRegion,
}

// podTerm is a term of affinity to pods, as far as it is read.
type podTerm struct {
	TopologyKey   string `yaml:"topologyKey"`
	LabelSelector struct {
		MatchLabels      map[string]string `yaml:"matchLabels"`
		MatchExpressions []yaml.Node       `yaml:"matchExpressions"`
	} `yaml:"labelSelector"`
}

// own says whether a term is about the pods of its own template.
func (t *podTerm) own(p *pod) bool {
	for k, v := range t.LabelSelector.MatchLabels {
		if p.meta.labels[k] != v {
			return false
		}
	}
	return len(t.LabelSelector.MatchLabels) > 0 && len(t.LabelSelector.MatchExpressions) == 0
}

// podTerms are the terms of an affinity to pods that have to hold. The rest is for a scheduler to prefer.
type podTerms struct {
	Required []podTerm `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
}

// ownPods has the rules of a pod about those of its own kind be rules of placement, and says whether there is anything
// else in its affinity. Machines of one task are in one zone, so there is nothing to spread over more than one.
func (r *reader) ownPods(p *pod, n *yaml.Node) (rest bool) {
	var said struct {
		Node map[string]yaml.Node `yaml:"nodeAffinity"`
		Near podTerms             `yaml:"podAffinity"`
		Away podTerms             `yaml:"podAntiAffinity"`
	}
	if n.Decode(&said) != nil {
		return true
	}
	for i := range said.Away.Required {
		switch level := topologyLevels[said.Away.Required[i].TopologyKey]; {
		case said.Away.Required[i].own(p) && (level == dag.LevelRack || level == dag.LevelMachine):
			p.rules = append(p.rules, dag.Placement{Spread: level})
		default:
			rest = true
		}
	}
	for i := range said.Near.Required {
		switch level := topologyLevels[said.Near.Required[i].TopologyKey]; {
		case said.Near.Required[i].own(p) && level != "" && level != dag.LevelMachine:
			p.rules = append(p.rules, dag.Placement{Pack: level})
		default:
			rest = true
		}
	}
	return rest || len(said.Node) > 0
}
