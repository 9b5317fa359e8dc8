package pool

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// slice is a partition with when its machines were last heard of.
type slice struct {
	Part record.Partition
	Seen map[string]time.Time
}

// ReadSlices loads all partitions of a pool, by index, and the beats of their machines.
func (b *Keeper) ReadSlices(u *unit.Unit, p record.Pool) ([]slice, error) {
	parts, err := b.partitions(u, p)
	if err != nil {
		return nil, err
	}
	out := make([]slice, len(parts))
	for i, part := range parts {
		out[i] = slice{Part: part, Seen: map[string]time.Time{}}
		if len(part.Machines) == 0 {
			continue
		}
		prefix := record.SlicePrefix(part.Index) + record.BeatInfix
		if _, err := book.List[record.Beat](u, record.PoolPart(p.Name), prefix, 0); err != nil {
			return nil, err
		}
		for _, m := range part.Machines {
			beat, _, err := book.Get[record.Beat](u, record.BeatKey(p.Name, part.Index, m.ID))
			if err != nil {
				return nil, err
			}
			out[i].Seen[m.ID] = beat.At
		}
	}
	return out, nil
}
