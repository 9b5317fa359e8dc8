package attempt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
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

// Doubt is why whoever says hello is not taken for the machine that was launched for the rank; nil where it is, or
// where nothing was proved and nothing has to be. It is ErrEarly or ErrMachine, the latter with a reason.
func (st *Arriving) Doubt(cfg record.Config, m *wire.Machine) error {
	cl := &st.Cluster
	launched := cl.Nodes[st.Rank].Machine
	switch {
	case m == nil && (cl.Assigned() || !slices.Contains(cfg.Proven, cl.Offer.Cloud)):
		return nil
	case m == nil:
		return doubt("it came without the proof that machines of %s have", cl.Offer.Cloud)
	case m.Fault != "":
		return doubt("%s", m.Fault)
	case m.Cloud != cl.Offer.Cloud:
		return doubt("it is a machine of %s, and one of %s was launched", m.Cloud, cl.Offer.Cloud)
	case launched == "" && cl.State == record.ClusterLaunching:
		return record.ErrEarly
	case m.ID != launched:
		return doubt("it is %s, and %s was launched", m.ID, cmp.Or(launched, "no machine that is known"))
	case m.Account != "" && cl.Account != "" && m.Account != cl.Account:
		return doubt("it is of account %s, and was launched in %s", m.Account, cl.Account)
	case m.Region != "" && m.Region != cl.Offer.Region:
		return doubt("it is in %s, and was launched in %s", m.Region, cl.Offer.Region)
	}
	return nil
}

func doubt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", record.ErrMachine, fmt.Sprintf(format, args...))
}

// maxDoubt bounds what is kept of a reason, in bytes: parts of it come from whoever was not believed.
const maxDoubt = 300

// DecideDoubt notes on an attempt why a machine was not believed.
func DecideDoubt(a apitypes.Attempt, rank int, why error, now time.Time) (d record.Decision) {
	text := strings.ToValidUTF8(fmt.Sprintf("the hello of rank %d was refused: %v", rank, why), "")
	a.Doubt, a.DoubtedAt = strings.ToValidUTF8(text[:min(len(text), maxDoubt)], ""), now
	d.Put(record.AttemptKey(a.Job, a.Task, a.Number), a)
	return d
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
