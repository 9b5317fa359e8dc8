package drawn

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Gang puts tasks with the same parents into a gang, in some jobs or (always) in all. Some gangs, or (headed) all,
// get a chief.
func Gang(r timeline.Random, j *dag.Job, always, headed bool) {
	if !r.Chance(0.3) && !always {
		return
	}
	g := j.Graph()
	together := map[string][]int{}
	var order []string
	for i := range j.Tasks {
		key := fmt.Sprint(g.Parents(i))
		if together[key] = append(together[key], i); len(together[key]) == 2 {
			order = append(order, key)
		}
	}
	if len(order) == 0 {
		return
	}
	all := together[timeline.Pick(r, order)]
	members := all[:2+r.IntN(min(len(all), dag.MaxGang)-1)]
	for _, i := range members {
		j.Tasks[i].Gang = "gang"
	}
	if r.Chance(0.3) || headed { // the others end with it
		chief := &j.Tasks[timeline.Pick(r, members)]
		chief.On = []dag.Reaction{{Event: dag.TaskCompleted, Action: dag.Complete}}
	}
}

// Joining adds machines that join a role of a running gang, to some gangs or (always) to all.
func Joining(r timeline.Random, j *dag.Job, always bool) {
	gangs := j.Gangs()["gang"]
	if len(gangs) == 0 || !r.Chance(0.4) && !always {
		return
	}
	lead := timeline.Pick(r, gangs)
	edges := slices.Clone(j.Edges)
	for range 1 + r.IntN(3) {
		t := j.Tasks[lead]
		t.Name, t.Gang, t.Joins, t.Role, t.On = fmt.Sprintf("t%d", len(j.Tasks)), "", t.Gang, t.RoleName(), nil
		for _, e := range edges {
			if e.To == lead {
				j.Edges = append(j.Edges, dag.Edge{From: e.From, To: len(j.Tasks), Data: e.Data})
			}
		}
		j.Tasks = append(j.Tasks, t)
	}
	j.Tasks[lead].Role = j.Tasks[lead].RoleName()
}

// Roles makes tasks of gangs restart by themselves after certain events.
func Roles(r timeline.Random, j *dag.Job) {
	gang := j.Gangs()["gang"]
	if len(gang) == 0 || !r.Chance(0.8) {
		return
	}
	for _, i := range gang {
		t := &j.Tasks[i]
		if r.Chance(0.9) {
			t.On = append(t.On, dag.Reaction{Event: dag.PodEvicted, Action: dag.RestartRole})
		}
		if r.Chance(0.5) && t.Run != "" {
			t.On = append(t.On, dag.Reaction{Event: dag.PodFailed, Action: dag.RestartRole, Limit: r.IntN(3)})
		}
	}
}
