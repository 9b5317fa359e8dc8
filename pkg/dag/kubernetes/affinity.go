package kubernetes

import (
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// topologyLevels are the node labels by which pods can be spread and packed.
var topologyLevels = map[string]dag.Level{
	"kubernetes.io/hostname": dag.LevelMachine, "topology.kubernetes.io/rack": dag.LevelRack,
	"topology.kubernetes.io/zone": dag.LevelZone, "topology.kubernetes.io/region": dag.LevelRegion,
}

// podTerm is a term of pod affinity, with the fields that are supported.
type podTerm struct {
	TopologyKey   string `yaml:"topologyKey"`
	LabelSelector struct {
		MatchLabels      map[string]string `yaml:"matchLabels"`
		MatchExpressions []yaml.Node       `yaml:"matchExpressions"`
	} `yaml:"labelSelector"`
}

// own reports whether a term selects the pods of its own template.
func (t *podTerm) own(p *pod) bool {
	for k, v := range t.LabelSelector.MatchLabels {
		if p.meta.labels[k] != v {
			return false
		}
	}
	return len(t.LabelSelector.MatchLabels) > 0 && len(t.LabelSelector.MatchExpressions) == 0
}

// podTerms are the required terms of pod affinity. Preferred terms are ignored.
type podTerms struct {
	Required []podTerm `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
}

// ownPods converts the rules of a pod about its own kind to placement rules, and reports whether the affinity has
// anything else. The machines of one task are always in one zone, so a rule cannot spread them over zones or regions.
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
