package table

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// Builder collects offers, from files or from another table.
type Builder struct {
	places    []Place
	machines  []Machine
	offers    []Offer
	placeOf   map[Place]uint16
	machineOf map[Machine]uint16
	// offerOf finds an offer by what its ID says, to notice a file that lists one
	// twice.
	offerOf map[offerKey]int
}

type offerKey struct {
	place        uint16
	instanceType string
	attached     string
	count        float64
}

// NewBuilder returns an empty one.
func NewBuilder() *Builder {
	return &Builder{
		placeOf:   make(map[Place]uint16),
		machineOf: make(map[Machine]uint16),
		offerOf:   make(map[offerKey]int),
	}
}

// Add adds an offer of a machine in a place. Where a source lists the same offer twice alike, it is one
// (Google's TPU v4); where it lists it differently, it contradicts itself.
func (b *Builder) Add(m Machine, p Place, o Offer) error {
	var err error
	if o.place, err = number(p, &b.places, b.placeOf, maxPlaces, "zones"); err != nil {
		return err
	}
	if o.machine, err = number(m, &b.machines, b.machineOf, maxMachines, "machine types"); err != nil {
		return err
	}
	key := offerKey{place: o.place, instanceType: m.InstanceType}
	if m.Attached {
		key.attached, key.count = m.Accelerator, m.Count
	}
	if i, twice := b.offerOf[key]; twice {
		if b.offers[i] != o {
			return fmt.Errorf("%s is listed twice in %s, and not alike", m.TypeString(), cmp.Or(p.Zone, p.Region))
		}
		return nil
	}
	if len(b.offers) >= maxOffers {
		return fmt.Errorf("more than %d offers", maxOffers)
	}
	b.offerOf[key] = len(b.offers)
	b.offers = append(b.offers, o)
	return nil
}

// number returns the position of x in a list, into which it is put where it is new. at finds those that are in it.
func number[T comparable](x T, list *[]T, at map[T]uint16, most int, what string) (uint16, error) {
	i, ok := at[x]
	if ok {
		return i, nil
	}
	if len(*list) >= most {
		return 0, fmt.Errorf("more than %d %s", most, what)
	}
	i = uint16(len(*list)) //nolint:gosec // bounded just above
	*list = append(*list, x)
	at[x] = i
	return i, nil
}

// Columns lays out what was collected.
func (b *Builder) Columns() (*Columns, error) {
	if len(b.offers) == 0 {
		return nil, errors.New("no offer with a price")
	}
	return newColumns(b.places, b.machines, b.offers), nil
}

// CanonicalAccelerator names an accelerator as package accel does; one that it
// does not know keeps its name, so that a new model can be bought before it is
// known here.
func CanonicalAccelerator(name string) string {
	if name == "" {
		return ""
	}
	if canonical, err := accel.Normalize(name); err == nil {
		return canonical
	}
	return strings.ReplaceAll(name, " ", "-")
}
