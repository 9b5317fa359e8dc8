package table

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
)

// Builder collects offers, from files or from another catalogue.
type Builder struct {
	places    []Place
	machines  []Machine
	offers    []Offer
	placeOf   map[Place]uint16
	machineOf map[Machine]uint16
	// offerOf finds an offer by the parts of its ID, to detect a file that lists one twice.
	offerOf map[offerKey]int
}

type offerKey struct {
	place        uint16
	instanceType string
	attached     string
	count        float64
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{
		placeOf:   make(map[Place]uint16),
		machineOf: make(map[Machine]uint16),
		offerOf:   make(map[offerKey]int),
	}
}

// Add adds an offer of a machine in a place. An identical second listing of an offer is ignored (Google's TPU v4 is
// listed so); a different one is an error.
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
			return fmt.Errorf(
				"%s is listed twice in %s, with different values",
				m.TypeString(),
				cmp.Or(p.Zone, p.Region),
			)
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

// number returns the position of x in a list and appends x if it is new. at maps the values of the list to their
// positions.
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

// Columns returns the collected offers as columns. It returns an error if there are none.
func (b *Builder) Columns() (*Columns, error) {
	if len(b.offers) == 0 {
		return nil, errors.New("no offer with a price")
	}
	return newColumns(b.places, b.machines, b.offers), nil
}

// CanonicalAccelerator returns the name that package accel has for an accelerator. An unknown one keeps its name, so
// that a new model can be bought before package accel knows it.
func CanonicalAccelerator(name string) string {
	if name == "" {
		return ""
	}
	if canonical, err := accel.Normalize(name); err == nil {
		return canonical
	}
	return strings.ReplaceAll(name, " ", "-")
}
