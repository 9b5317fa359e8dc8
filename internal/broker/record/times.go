package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// NodesOn returns the number of machines of a task on a planned offer. If c is nil, or does not state the number, it
// is that of the task's file.
func NodesOn(t *dag.Task, c *Planned) int {
	if c != nil && c.Offer.Nodes > 0 {
		return c.Offer.Nodes
	}
	return max(t.Nodes, 1)
}

// TimeOn returns the estimated time of a task's whole work on an offer, without the boot of its machine.
func TimeOn(t *dag.Task, o apitypes.Offer) time.Duration {
	return t.TimeOn(o.InstanceType, o.Accelerator, o.AccelCount, o.Speed, o.Nodes)
}
