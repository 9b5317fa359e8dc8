package attempt

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Rules are the rules of placement of an attempt for its driver, but for those about regions, which an offer settles,
// and the labels by which those of others know it.
func (st *Buying) Rules() (rules []cloud.Rule, knownBy map[string]string) {
	for n, g := range st.job.Groups() {
		if g.Level() == dag.LevelRegion || !g.Has(st.task.Index) {
			continue
		}
		rules = append(rules, cloud.Rule{Group: fmt.Sprintf("%s/%d", st.Job.ID, n), Spread: string(g.Spread),
			Most: g.Most(), Pack: string(g.Pack)})
	}
	for _, p := range st.Spec.Aparts() {
		if p.Level() != dag.LevelRegion {
			rules = append(rules, cloud.Rule{Apart: p.Apart, By: string(p.Level())})
		}
	}
	return rules, st.Spec.Labels
}
