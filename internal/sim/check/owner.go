package check

import (
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Owned checks that a function has committed only records that it has the right to write.
func (c *Checker) Owned(fn string, tx store.Tx) {
	if fn == "" {
		return
	}
	own := record.Writers(fn)
	for i := range tx.Writes {
		w := &tx.Writes[i]
		if w.Op != store.Check && !matches(own, w.Key.Partition) {
			c.Violatef(InvOwner, "%s writes %s/%s", fn, w.Key.Partition, w.Key.Sort)
		}
	}
}

// matches reports whether a partition matches one of some patterns, in which a star at the end matches anything.
func matches(patterns []string, partition string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		start, any := strings.CutSuffix(pattern, "*")
		return start == partition || any && strings.HasPrefix(partition, start)
	})
}
