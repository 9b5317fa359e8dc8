package record

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Gate orders the admissions of all queues under the limit of a deployment. The records of the queues have the
// amounts in use. Each admission and each release writes the gate, so two of them never decide by the same sum.
type Gate struct {
	// Waiting lists queues with tasks that wait because of the limit. The next release starts a session for each.
	Waiting []string `json:"waiting,omitempty"`
}

// GateKey is the key of the Gate.
func GateKey() store.Key { return store.Key{Partition: PartQueueGate, Sort: "gate"} }

// Wait adds a queue. It reports whether the queue was not waiting before.
func (g *Gate) Wait(queue string) bool {
	if slices.Contains(g.Waiting, queue) {
		return false
	}
	g.Waiting = append(slices.Clone(g.Waiting), queue)
	return true
}
