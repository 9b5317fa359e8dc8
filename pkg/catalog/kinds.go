package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// In a snapshot, reserved capacity is a JSON array, preceded by its length. Each element has a
// number, "kind", for the features that a reader must know to count the capacity correctly:
//
//	0, which is omitted: machines of one type
//	1: a commitment in machines, vCPUs, memory and USD per hour
//	2: a commitment that also has normalised units
//
// If readers of these kinds would count a new feature wrong, give the feature the next number and a
// line in this list. A reader skips elements of unknown kinds, and copies them to the snapshots
// that it writes. If it counted such an element in part, the broker would use more capacity than
// exists. If it rejected the snapshot, it would lose all prices of all clouds. A reader still reads
// kind, cloud and id of each element, so these three must never change.
const (
	kindMachines = iota
	kindAmounts
	kindUnits

	lastKind = kindUnits
)

// kind returns the lowest kind that lets readers count the capacity correctly.
func (r *Reserved) kind() int {
	switch {
	case r.Commitment == nil:
		return kindMachines
	case r.Commitment.Has.CentiUnits > 0:
		return kindUnits
	}
	for _, takes := range r.Commitment.Takes {
		if takes.CentiUnits > 0 {
			return kindUnits
		}
	}
	return kindAmounts
}

// unknown is an element of a kind that this program does not know.
type unknown struct {
	Kind  int    `json:"kind"`
	Cloud string `json:"cloud"`
	ID    string `json:"id"`
	raw   json.RawMessage
}

// Unknown returns the number of elements of reserved capacity that only a newer program can count. They are kept, but
// no plan uses them.
func (c *Catalog) Unknown() int { return len(c.unknown) }

// encodeReserved returns the reserved capacity in the form in which it precedes the offers in a snapshot.
func encodeReserved(all []Reserved, others []unknown) ([]byte, error) {
	type element struct {
		Kind int `json:"kind,omitempty"`
		Reserved
	}
	list := make([]any, 0, len(all)+len(others))
	for i := range all {
		list = append(list, element{all[i].kind(), all[i]})
	}
	for _, u := range others {
		list = append(list, u.raw)
	}
	body, err := json.Marshal(list)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...), err
}

func decodeReserved(raw []byte) (all []Reserved, others []unknown, rest []byte, err error) {
	size, n := binary.Uvarint(raw)
	if n <= 0 || size > maxReservedBytes || size > uint64(len(raw)-n) { //nolint:gosec // n is at most its length
		return nil, nil, nil, fmt.Errorf("%w: cut short", table.ErrBadSnapshot)
	}
	raw = raw[n:]
	var list []json.RawMessage
	if err := json.Unmarshal(raw[:size], &list); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: reserved capacity: %w", table.ErrBadSnapshot, err)
	}
	if len(list) > maxReserved {
		return nil, nil, nil, fmt.Errorf("%w: %d reservations", table.ErrBadSnapshot, len(list))
	}
	for _, one := range list {
		u := unknown{raw: one}
		var r Reserved
		err := json.Unmarshal(one, &u)
		if err == nil && u.Kind <= lastKind {
			err = json.Unmarshal(one, &r)
		}
		switch {
		case err != nil:
			return nil, nil, nil, fmt.Errorf("%w: reserved capacity: %w", table.ErrBadSnapshot, err)
		case u.Kind > lastKind:
			others = append(others, u)
		default:
			all = append(all, r)
		}
	}
	if err := sortAndCheck(all); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", table.ErrBadSnapshot, err)
	}
	slices.SortStableFunc(others, func(a, b unknown) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.ID, b.ID))
	})
	return all, others, raw[size:], nil
}
