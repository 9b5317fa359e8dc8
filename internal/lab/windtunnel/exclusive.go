package windtunnel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// The baselines that avoid all conflicts (ATC '21, §4). The paper gives no parameters for the lock.
const (
	// Static divides the partitions among the schedulers once. A scheduler takes the best free slot of its own
	// partitions. It always knows their state, and cannot use the slots of other schedulers.
	Static parsync.Policy = "static"
	// Lock has a lock for each partition. In each turn, a scheduler with tasks requests the lock of a random
	// partition. If it gets the lock, it takes the best free slots of the partition for a turn; else it waits for the
	// next turn.
	Lock parsync.Policy = "lock"
)

// Policies returns the policies and the baselines, in display order.
func Policies() []parsync.Policy {
	return []parsync.Policy{parsync.Adaptive, parsync.LatencyFirst, parsync.QualityFirst, Static, Lock,
		parsync.StateSync}
}

// ParsePolicy parses the name of a policy or a baseline. For an unknown name it returns parsync.ErrInvalid with a list
// of all.
func ParsePolicy(name string) (parsync.Policy, error) {
	var names []string
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("%w: unknown policy %q; the policies are %s", parsync.ErrInvalid, name,
			strings.Join(names, ", "))
	}
	return parsync.Policy(name), nil
}

// refreshOwn refreshes the view of a scheduler's own partitions under Static.
func (t *tunnel) refreshOwn(s *scheduler) {
	for p := range t.c.Partitions {
		if p*t.c.Schedulers/t.c.Partitions == s.index {
			s.view.Refresh(p, t.cluster.partition(p))
		}
	}
}

// lock gives the locks of this turn to schedulers, in random order. Without a lock, a scheduler sees no free slot.
func (t *tunnel) lock() {
	taken := make([]bool, t.c.Partitions)
	for _, i := range t.random.Perm(len(t.schedulers)) {
		s := t.schedulers[i]
		s.view.Refresh(s.locked, t.none)
		if s.queued == 0 {
			continue
		}
		if p := t.random.IntN(t.c.Partitions); !taken[p] {
			taken[p], s.locked = true, p
			s.view.Refresh(p, t.cluster.partition(p))
		}
	}
}
