package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// In a snapshot, reserved capacity is a JSON array with its length in front. What one has to know to count an element
// of it right is a number, "kind":
//
//	0, which is left out: machines of one type
//	1: a commitment in machines, vCPUs, memory and USD an hour
//	2: one in normalised units as well
//
// Whatever cannot be counted right by who knows no more than that gets the next number, and a line here. A reader skips
// elements of larger ones, whatever is in them, and keeps them for whoever reads what it writes: counted in part they
// would be used beyond what there is, and a snapshot that is refused is all prices of all clouds lost. Of an element
// it reads kind, cloud and id, which therefore stay what they are.
const (
	kindMachines = iota
	kindAmounts
	kindUnits

	lastKind = kindUnits
)

// kind is the least that has to be known to count it right.
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

// unknown is reserved capacity of a kind that this program does not know.
type unknown struct {
	Kind  int    `json:"kind"`
	Cloud string `json:"cloud"`
	ID    string `json:"id"`
	raw   json.RawMessage
}

// Unknown is how much of the account's capacity only a newer program can count. It is kept, and not planned on.
func (c *Catalog) Unknown() int { return len(c.unknown) }

// encodeReserved writes it in front of the offers.
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
	if n <= 0 || size > mostReservedBytes || size > uint64(len(raw)-n) { //nolint:gosec // n is at most its length
		return nil, nil, nil, fmt.Errorf("%w: cut short", table.ErrBadSnapshot)
	}
	raw = raw[n:]
	var list []json.RawMessage
	if err := json.Unmarshal(raw[:size], &list); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: reserved capacity: %w", table.ErrBadSnapshot, err)
	}
	if len(list) > mostReserved {
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
	if err := sorted(all); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", table.ErrBadSnapshot, err)
	}
	slices.SortStableFunc(others, func(a, b unknown) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.ID, b.ID))
	})
	return all, others, raw[size:], nil
}
