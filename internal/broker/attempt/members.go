package attempt

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Gang returns the data about other members that the nodes of a cluster need, or nil if they work alone. All tasks of
// a gang are up before any of them is commanded to run, so their addresses are known.
func Gang(u recordcache.Reader, job record.Job, spec *dag.Job, cl record.Cluster) (*wire.Gang, error) {
	t := &spec.Tasks[cl.Task]
	if t.Gang == "" && t.Joins == "" && t.Framework == "" && t.Spark == nil || t.StandIn() {
		return nil, nil
	}
	g := &wire.Gang{
		Name: cmp.Or(t.Gang, t.Joins), Role: t.RoleName(), Framework: string(t.Framework), Chief: spec.Chief(cl.Task),
	}
	if g.Name == "" {
		g.Members = []wire.Member{memberOf(t, cl)}
		return g, nil
	}
	lead := cl.Task
	if t.Joins != "" {
		lead = spec.Lead(cl.Task)
	}
	gang, joining := spec.Gang(lead), spec.Joining(g.Name)
	members, err := membersOf(u, job, slices.Concat(gang, joining))
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		i := m.Task.Index
		if !m.Bought || spec.Tasks[i].Joins != "" && i != cl.Task && !m.Cluster.Started {
			continue
		}
		of := memberOf(&spec.Tasks[i], m.Cluster)
		of.First = firstOf(spec, joining, i)
		g.Members = append(g.Members, of)
	}
	if len(joining) > 0 {
		g.First = firstOf(spec, joining, cl.Task)
		for _, i := range gang {
			g.Least += spec.Tasks[i].Nodes
		}
		g.Most = g.Least
		for _, i := range joining {
			g.Most += spec.Tasks[i].Nodes
		}
	}
	return g, nil
}

// firstOf returns the rank of a task's first node in its role. It is 0 for a task of the gang. For a joining task, it
// follows the nodes of the gang and of the tasks that joined the role earlier.
func firstOf(spec *dag.Job, joining []int, task int) (rank int) {
	lead := spec.Lead(task)
	if lead < 0 {
		return 0
	}
	rank = spec.Tasks[lead].Nodes
	for _, i := range joining {
		if i < task && spec.Lead(i) == lead {
			rank += spec.Tasks[i].Nodes
		}
	}
	return rank
}

func memberOf(t *dag.Task, cl record.Cluster) wire.Member {
	m := wire.Member{Role: t.RoleName(), Task: t.Name, Attempt: cl.ID}
	for _, n := range cl.Nodes {
		m.Nodes = append(m.Nodes, n.Address)
	}
	m.Slots = max(int(cmp.Or(cl.Offer.AccelCount, cl.VCPU/float64(max(len(cl.Nodes), 1)))), 1)
	return m
}
