package parsync

import (
	"errors"
	"fmt"
)

// ErrInvalid is returned for invalid sizes or names.
var ErrInvalid = errors.New("parsync: invalid")

// Rotation determines which partition a scheduler refreshes in which turn. In each turn every scheduler refreshes a
// different partition, and in any Partitions consecutive turns each scheduler refreshes every partition once (ATC
// '21, §4).
type Rotation struct{ Schedulers, Partitions int }

// NewRotation returns a rotation for the given numbers of schedulers and partitions. There must be more partitions
// than schedulers; one scheduler needs at least one partition.
func NewRotation(schedulers, partitions int) (Rotation, error) {
	if schedulers < 1 || partitions < 1 || schedulers > 1 && partitions <= schedulers {
		return Rotation{},
			fmt.Errorf("%w: %d schedulers over %d partitions; there must be more partitions than schedulers",
				ErrInvalid, schedulers, partitions)
	}
	return Rotation{schedulers, partitions}, nil
}

// Partition returns the partition that a scheduler refreshes in a turn. The schedulers are evenly spread, so each
// partition is refreshed by some scheduler at even intervals.
func (r Rotation) Partition(scheduler int, turn uint64) int {
	offset := uint64(scheduler) * uint64(r.Partitions) / uint64(r.Schedulers) //nolint:gosec // sizes are positive
	return int((turn + offset) % uint64(r.Partitions))                        //nolint:gosec // below Partitions
}

// Age returns how many turns ago a scheduler refreshed a partition, directly after the given turn. 0 means in this
// turn.
func (r Rotation) Age(scheduler, partition int, turn uint64) int {
	return (r.Partition(scheduler, turn) - partition + r.Partitions) % r.Partitions
}
