package attempt

import (
	"cmp"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Gang is what the nodes of a cluster are told of those that they work with; nil where they need not know. All of a
// gang are up before one is told to run, so their addresses are known.
func Gang(u book.Reader, job record.Job, spec *dag.Job, cl record.Cluster) (*wire.Gang, error) {
	t := &spec.Tasks[cl.Task]
	if t.Gang == "" && t.Framework == "" || t.StandIn() {
		return nil, nil
	}
	g := &wire.Gang{
		Name: t.Gang, Role: t.RoleOf(), Framework: string(t.Framework), Chief: spec.Chief(cl.Task),
	}
	if t.Gang == "" {
		g.Members = []wire.Member{memberOf(t, cl)}
		return g, nil
	}
	members, err := GangOf(u, job, cl.Task)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Bought {
			g.Members = append(g.Members, memberOf(&spec.Tasks[m.Task.Index], m.Cluster))
		}
	}
	return g, nil
}

func memberOf(t *dag.Task, cl record.Cluster) wire.Member {
	m := wire.Member{Role: t.RoleOf(), Task: t.Name, Attempt: cl.ID}
	for _, n := range cl.Nodes {
		m.Nodes = append(m.Nodes, n.Address)
	}
	m.Slots = max(int(cmp.Or(cl.Offer.AccelCount, cl.VCPU/float64(max(len(cl.Nodes), 1)))), 1)
	return m
}
