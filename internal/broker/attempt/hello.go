package attempt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Arriving is the input of the decision on a hello. The job and the task are loaded only for the last hello of a
// cluster.
type Arriving struct {
	Job     record.Job
	Task    record.Task
	Cluster record.Cluster
	Rank    int
}

// Up reports whether the hello of this node makes the cluster complete.
func (st *Arriving) Up() bool {
	for i, n := range st.Cluster.Nodes {
		if i != st.Rank && n.Address == "" {
			return false
		}
	}
	return st.Cluster.State == record.ClusterBooting
}

// Doubt returns the reason why the caller is not accepted as the machine that was launched for the rank: ErrEarly, or
// ErrMachine with a text. It returns nil if the caller is that machine, or if it sent no proof and none is required.
func (st *Arriving) Doubt(cfg config.Config, m *wire.Machine) error {
	cl := &st.Cluster
	launched := cl.Nodes[st.Rank].Machine
	switch {
	case cl.Offer.Service != "": // a service has no machine: the broker itself says hello
		return nil
	case cl.Assigned(): // the machine proved its identity when it joined the pool; its agents may still send a proof
		return nil
	case m == nil && !slices.Contains(cfg.Proven, cl.Offer.Cloud):
		return nil
	case m == nil:
		return doubt("it did not prove its identity, as machines of %s must", cl.Offer.Cloud)
	case m.Fault != "":
		return doubt("%s", m.Fault)
	case m.Cloud != cl.Offer.Cloud:
		return doubt("it is a machine of %s, but one of %s was launched", m.Cloud, cl.Offer.Cloud)
	case launched == "" && cl.State == record.ClusterLaunching:
		return record.ErrEarly
	case m.ID != launched:
		return doubt("it is %s, but %s was launched", m.ID, cmp.Or(launched, "no known machine"))
	case m.Account != "" && cl.Account != "" && m.Account != cl.Account:
		return doubt("it belongs to account %s, but was launched in account %s", m.Account, cl.Account)
	case m.Region != "" && m.Region != cl.Offer.Region:
		return doubt("it is in region %s, but was launched in %s", m.Region, cl.Offer.Region)
	}
	return nil
}

func doubt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", record.ErrMachine, fmt.Sprintf(format, args...))
}

// maxDoubt is the maximum length of a stored reason, in bytes. It is limited because the refused caller wrote parts
// of the text.
const maxDoubt = 300

// DecideDoubt records in an attempt the reason why a machine was refused.
func DecideDoubt(a apitypes.Attempt, rank int, why error, now time.Time) (d record.Decision) {
	text := strings.ToValidUTF8(fmt.Sprintf("the hello of rank %d was refused: %v", rank, why), "")
	a.Doubt, a.DoubtedAt = strings.ToValidUTF8(text[:min(len(text), maxDoubt)], ""), now
	d.Put(record.AttemptKey(a.Job, a.Task, a.Number), a)
	return d
}

// AlreadyArrived reports whether another agent has already said hello for this rank.
func (st *Arriving) AlreadyArrived(h wire.Hello) bool {
	n := st.Cluster.Nodes[st.Rank]
	return n.Address != "" && n.Hello != nonceHash(h)
}

// nonceHash returns the stored hash of an agent's nonce, or "" for an agent without one.
func nonceHash(h wire.Hello) string {
	if h.Nonce == "" {
		return ""
	}
	return record.ShortHash(h.Nonce)
}

// DecideHello records a node's address. The last hello brings the cluster up.
func DecideHello(st *Arriving, h wire.Hello, now time.Time) (d record.Decision) {
	up := st.Up()
	st.Cluster.Nodes = append([]record.Node(nil), st.Cluster.Nodes...)
	node := &st.Cluster.Nodes[st.Rank]
	node.Address, node.Hello, node.Seen = h.Address, nonceHash(h), now
	if up {
		d.BringUp(st.Job, st.Task, &st.Cluster, now)
	}
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	return d
}
