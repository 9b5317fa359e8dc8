package record

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Gate orders the admissions of all queues under the limit of a deployment. What is in use is in the records of the
// queues; an admission and a release write the gate, so two of them never decide on the same sum.
type Gate struct {
	// Waiting are queues with tasks that the limit keeps waiting. The next release starts a session over each.
	Waiting []string `json:"waiting,omitempty"`
}

// GateKey is the key of the Gate.
func GateKey() store.Key { return store.Key{Partition: PartQueueGate, Sort: "gate"} }

// Wait adds a queue, and reports whether it was not waiting.
func (g *Gate) Wait(queue string) bool {
	if slices.Contains(g.Waiting, queue) {
		return false
	}
	g.Waiting = append(slices.Clone(g.Waiting), queue)
	return true
}
