package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TimeOn returns the estimated time of a task's whole work on an offer, without the boot of its machine.
func TimeOn(t *dag.Task, o apitypes.Offer) time.Duration {
	return t.Time.For(o.InstanceType, o.Accelerator, o.AccelCount, o.Speed, t.Nodes)
}
