// Package renew is the common part of the refreshes of the catalogue: the snapshot from which they start and the
// place to which they write the result. It links the catalogue, which drivers do not.
package renew

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Last returns the last snapshot and the shipped catalogue, which is base or, if that is nil, the one in the binary.
// Without a readable snapshot, last is the shipped catalogue too.
func Last(ctx context.Context, s driver.Snapshots, base *catalog.Catalog) (last, shipped *catalog.Catalog, err error) {
	if shipped = base; shipped == nil {
		if shipped, err = catalog.Default(); err != nil {
			return nil, nil, err
		}
	}
	data, _, err := s.Get(ctx, "")
	if err == nil {
		last, err = catalog.ReadSnapshot(data)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, catalog.ErrBadSnapshot) {
		return shipped, shipped, nil
	}
	return last, shipped, err
}

// Save writes the next snapshot, without the offers that cannot be sold with the default images and settings.
func Save(ctx context.Context, s driver.Snapshots, next *catalog.Catalog) error {
	next, _, err := sellable.Only(next)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := next.WriteSnapshot(&out); err != nil {
		return err
	}
	return s.Put(ctx, out.Bytes())
}

// Collect returns the matching offers of a catalogue by ID.
func Collect(c *catalog.Catalog, of func(*catalog.Offer) bool) map[string]catalog.Offer {
	found := map[string]catalog.Offer{}
	for o := range c.All() {
		if of(&o) {
			found[o.ID()] = o
		}
	}
	return found
}
