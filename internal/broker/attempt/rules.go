package attempt

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Rules returns an attempt's placement rules for its driver, and the labels by which rules of other attempts refer to
// this attempt. Rules about regions are omitted, because the offer already satisfies them.
func (st *Buying) Rules() (rules []cloud.Rule, knownBy map[string]string) {
	for n, g := range st.job.Groups() {
		if g.Level() == dag.LevelRegion || !g.Has(st.task.Index) {
			continue
		}
		rules = append(rules, cloud.Rule{Group: fmt.Sprintf("%s/%d", st.Job.ID, n), Spread: string(g.Spread),
			Most: g.MaxPerPlace(), Pack: string(g.Pack)})
	}
	for _, p := range st.Spec.ApartRules() {
		if p.Level() != dag.LevelRegion {
			rules = append(rules, cloud.Rule{Apart: p.Apart, By: string(p.Level())})
		}
	}
	return rules, st.Spec.Labels
}
