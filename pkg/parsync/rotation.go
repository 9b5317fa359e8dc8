package parsync

import (
	"errors"
	"fmt"
)

// ErrInvalid says that there can be no such sizes or names.
var ErrInvalid = errors.New("parsync: invalid")

// Rotation says which partition a scheduler refreshes at which turn. In each turn every scheduler
// refreshes one partition, no two the same, and in any Partitions turns in a row each refreshes every
// partition once (ATC '21, §4).
type Rotation struct{ Schedulers, Partitions int }

// NewRotation makes the rotation of so many schedulers over so many partitions. There must be more
// partitions than schedulers, or with one scheduler at least one.
func NewRotation(schedulers, partitions int) (Rotation, error) {
	if schedulers < 1 || partitions < 1 || schedulers > 1 && partitions <= schedulers {
		return Rotation{},
			fmt.Errorf("%w: %d schedulers over %d partitions; there must be more partitions than schedulers",
				ErrInvalid, schedulers, partitions)
	}
	return Rotation{schedulers, partitions}, nil
}

// Partition returns the partition that a scheduler refreshes in a turn. Schedulers start spread evenly, so that a
// partition is refreshed by one or another at even intervals.
func (r Rotation) Partition(scheduler int, turn uint64) int {
	offset := uint64(scheduler) * uint64(r.Partitions) / uint64(r.Schedulers) //nolint:gosec // sizes are positive
	return int((turn + offset) % uint64(r.Partitions))                        //nolint:gosec // below Partitions
}

// Age returns how many turns ago a scheduler has refreshed a partition, when it has just had a turn: 0 is now.
func (r Rotation) Age(scheduler, partition int, turn uint64) int {
	return (r.Partition(scheduler, turn) - partition + r.Partitions) % r.Partitions
}
