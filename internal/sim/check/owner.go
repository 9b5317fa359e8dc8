package check

import (
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Owned checks that a function has committed only what it has rights to write.
func (c *Checker) Owned(fn string, tx store.Tx) {
	if fn == "" {
		return
	}
	for i := range tx.Writes {
		w := &tx.Writes[i]
		if w.Op != store.Check && !mayWrite(fn, w.Key.Partition) {
			c.Violatef(InvOwner, "%s writes %s/%s", fn, w.Key.Partition, w.Key.Sort)
		}
	}
}

// mayWrite reports whether a function has the right to write the records of a partition.
func mayWrite(fn, partition string) bool {
	return slices.ContainsFunc(record.Writers(fn), func(pattern string) bool {
		start, any := strings.CutSuffix(pattern, "*")
		return start == partition || any && strings.HasPrefix(partition, start)
	})
}
