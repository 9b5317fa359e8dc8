package attempt

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Arriving is what a hello is decided on. The job and the task are loaded where it is the last.
type Arriving struct {
	Job     record.Job
	Task    record.Task
	Cluster record.Cluster
	Rank    int
}

// Up says that the cluster is up once this node is there.
func (st *Arriving) Up() bool {
	for i, n := range st.Cluster.Nodes {
		if i != st.Rank && n.Address == "" {
			return false
		}
	}
	return st.Cluster.State == record.ClusterBooting
}

// Taken says that another agent has said hello already.
func (st *Arriving) Taken(h wire.Hello) bool {
	n := st.Cluster.Nodes[st.Rank]
	return n.Address != "" && n.Hello != madeUp(h)
}

// madeUp is what is kept of what an agent made up; nothing of one that did not.
func madeUp(h wire.Hello) string {
	if h.Nonce == "" {
		return ""
	}
	return record.ShortHash(h.Nonce)
}

// DecideHello notes a node's address; the last one to come brings the cluster up.
func DecideHello(st *Arriving, h wire.Hello, now time.Time) (d record.Decision) {
	up := st.Up()
	st.Cluster.Nodes = append([]record.Node(nil), st.Cluster.Nodes...)
	node := &st.Cluster.Nodes[st.Rank]
	node.Address, node.Hello, node.Seen = h.Address, madeUp(h), now
	if up {
		d.BringUp(st.Job, st.Task, &st.Cluster, now)
	}
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	return d
}
