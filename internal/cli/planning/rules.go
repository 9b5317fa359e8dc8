package planning

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// maxNamedTasks is the maximum number of tasks named in a line about a rule.
const maxNamedTasks = 6

// rulesOf describes the placement rules of a job for people: "web1, web2: spread: zone".
func rulesOf(spec *dag.Job) (lines []string) {
	say := func(rule *dag.Placement, tasks ...int) {
		var names []string
		for n, i := range tasks {
			if n == maxNamedTasks {
				names = append(names, "…")
				break
			}
			names = append(names, text.Clean(spec.Tasks[i].Name))
		}
		lines = append(lines, strings.Join(names, ", ")+": "+rule.String())
	}
	for _, g := range spec.Groups() {
		say(g.Placement, g.Tasks...)
	}
	for i := range spec.Tasks {
		for _, rule := range spec.Tasks[i].ApartRules() {
			say(rule, i)
		}
	}
	const most = 20
	return lines[:min(len(lines), most)]
}
