package lambdalabs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Snapshots stores the refreshed catalogue.
type Snapshots = driver.Snapshots

// Source lists the machine types that are sold, by name. *lambdalabs.Cloud is one.
type Source interface {
	Types(ctx context.Context) (map[string]Sold, error)
}

// ErrMalformed means that a list of machine types is not plausible. The catalogue does not change.
var ErrMalformed = errors.New("the list of machine types is malformed")

// Refresher renews the catalogue's part for Lambda's GPU cloud from the API's list of machine types: which types it
// sells, their properties and their prices (intercloud-broker paper, §4.2). The result, merged over the catalogue in
// the binary, is a snapshot that planners read.
//
// The API does not list the regions that sell a type, only those that have capacity now. So a type stays in the
// regions where it was known, and is added where it has capacity; a type that is no longer listed is removed
// everywhere.
type Refresher struct {
	Source    Source
	Snapshots Snapshots
	Now       func() time.Time
	Log       *slog.Logger // nil discards
	// Base is the catalogue to merge over if there is no snapshot yet; catalog.Default when nil.
	Base *catalog.Catalog
}

// Result describes a refresh.
type Result struct {
	Offers  int
	New     []string // offers, by ID
	Gone    []string
	Changed []Change
	Took    time.Duration // duration by Now
}

// Change is a changed price, in USD per hour.
type Change struct {
	ID       string
	Was, Now float64
}

// Refresh reads the machine types, merges them over the last snapshot, and writes the next snapshot. If it fails, it
// writes nothing and the old data stays valid.
func (r *Refresher) Refresh(ctx context.Context) (Result, error) {
	began := r.Now()
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, _, err := renew.Last(ctx, r.Snapshots, r.Base)
	if err != nil {
		return Result{}, err
	}
	sold, err := r.Source.Types(ctx)
	if err == nil {
		err = believable(sold)
	}
	if err != nil {
		log.Warn("Lambda's offers not renewed", "err", err)
		return Result{}, err
	}
	of := func(o *catalog.Offer) bool { return o.Cloud == Name }
	before := renew.Collect(base, of)
	offers := merge(before, sold)
	res := compare(before, offers)
	next, err := base.Replace(of, offers)
	if err != nil {
		return Result{}, err
	}
	for _, c := range res.Changed {
		log.Info("a price has changed", "offer", c.ID, "was", c.Was, "is", c.Now)
	}
	res.Took = r.Now().Sub(began)
	return res, renew.Save(ctx, r.Snapshots, next)
}

// believable returns an error for a list in which a type lacks a name, price or size: it would make unusable offers.
func believable(sold map[string]Sold) error {
	if len(sold) == 0 {
		return fmt.Errorf("%w: it is empty", ErrMalformed)
	}
	for name, s := range sold {
		if t := s.Type; t.Name != name || t.Cents <= 0 || t.Specs.VCPU <= 0 || t.Specs.MemoryGiB <= 0 ||
			t.Specs.GPUs < 0 {
			return fmt.Errorf("%w: type %.64q: %+v", ErrMalformed, name, t)
		}
	}
	return nil
}

// merge makes the current offers.
func merge(before map[string]catalog.Offer, sold map[string]Sold) []catalog.Offer {
	known := map[string]catalog.Offer{} // by type
	regions := map[string]map[string]bool{}
	add := func(kind, region string) {
		if regions[kind] == nil {
			regions[kind] = map[string]bool{}
		}
		regions[kind][region] = true
	}
	for _, o := range before {
		if _, is := sold[o.InstanceType]; is {
			known[o.InstanceType] = o
			add(o.InstanceType, o.Region)
		}
	}
	var offers []catalog.Offer
	for name, s := range sold {
		for _, r := range s.Regions {
			if r.Name != "" {
				add(name, r.Name)
			}
		}
		like, was := known[name]
		if !was {
			like = fresh(s.Type)
		}
		for region := range regions[name] {
			o := like
			if old, ok := before[Name+"/"+region+"/"+name]; ok {
				o = old
			}
			o.Region, o.OnDemandUSD = region, float64(s.Type.Cents)/100
			offers = append(offers, o)
		}
	}
	slices.SortFunc(offers, func(a, b catalog.Offer) int { return cmp.Compare(a.ID(), b.ID()) })
	return offers
}

// fresh makes an offer of a new type from the API's description.
func fresh(t Type) catalog.Offer {
	o := catalog.Offer{Cloud: Name, InstanceType: t.Name, VCPU: float64(t.Specs.VCPU),
		MemoryGiB: float64(t.Specs.MemoryGiB), Arch: catalog.Arch(Arch(t.Name))}
	if t.Specs.GPUs > 0 {
		o.Accelerator, o.AcceleratorCount = accelerator(t.GPU), float64(t.Specs.GPUs)
	}
	return o
}

// accelerator returns a GPU's name in the catalogue: "A100 (80 GB SXM4)" is A100-80GB, "A10 (24 GB PCIe)" is A10.
func accelerator(description string) string {
	model, detail, _ := strings.Cut(description, " (")
	size, _, _ := strings.Cut(detail, " ")
	if _, err := strconv.Atoi(size); err == nil {
		if name, err := accel.Normalize(model + "-" + size + "GB"); err == nil {
			return name
		}
	}
	if name, err := accel.Normalize(model); err == nil {
		return name
	}
	return strings.ReplaceAll(model, " ", "-")
}

func compare(before map[string]catalog.Offer, offers []catalog.Offer) Result {
	res := Result{Offers: len(offers)}
	gone := maps.Clone(before)
	for _, o := range offers {
		was, ok := before[o.ID()]
		delete(gone, o.ID())
		switch {
		case !ok:
			res.New = append(res.New, o.ID())
		case was.OnDemandUSD != o.OnDemandUSD:
			res.Changed = append(res.Changed, Change{o.ID(), was.OnDemandUSD, o.OnDemandUSD})
		}
	}
	res.Gone = slices.Sorted(maps.Keys(gone))
	return res
}
