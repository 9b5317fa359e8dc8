package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Reserved is capacity that the account pays for whether it is used or not: a reservation or a commitment.
type Reserved struct {
	Cloud string `json:"cloud"`
	// ID is the cloud's ID, or a name from the settings; unique in the cloud.
	ID string `json:"id"`
	// Region is the region of the capacity; an empty one, which only commitments have, means all regions.
	Region string `json:"region,omitempty"`
	// Zone is a zone as in offers; empty means any zone of the region.
	Zone string `json:"zone,omitempty"`
	// InstanceType is the reserved machine type; empty for a commitment, whose Takes lists the types.
	InstanceType string `json:"instanceType,omitempty"`
	// Count is the maximum number of machines that may use it at once, without those used by others; 0 for a
	// commitment.
	Count int `json:"count,omitempty"`
	// USDPerHour is the marginal cost of one machine for one hour, without its disk and address; mostly 0.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Until is the time at which it ends; zero means unknown, or never.
	Until time.Time `json:"until,omitzero"`
	// By is the source: the cloud's term for the kind of capacity, or BySettings.
	By string `json:"by,omitempty"`
	// Total is the whole capacity, including the part that others use; zero means unknown. Snapshots do not have it.
	Total apitypes.Amount `json:"-"`
	// Commitment is set if machines of several types share the capacity; nil if it is a number of machines.
	Commitment *Commitment `json:"commitment,omitempty"`
}

// Commitment is capacity that machines of several types share.
type Commitment struct {
	// What describes the machines that it covers, for users.
	What string `json:"what"`
	// Has is the maximum amount that may be in use at once, without the part that others use.
	Has apitypes.Amount `json:"has"`
	// Takes is the amount that one machine uses, by REGION/TYPE. Other machine types are not covered.
	Takes map[string]apitypes.Amount `json:"takes"`
}

// The sources of capacity: BySettings is for capacity from the settings, the others are the clouds' terms for
// commitments.
const (
	BySettings     = "settings"
	ByCommittedUse = "committed use"
	BySavingsPlan  = "savings plan"
)

// Where returns its place as users write it: REGION, or REGION/ZONE.
func (r *Reserved) Where() string {
	switch {
	case r.Region == "":
		return "all regions"
	case r.Zone == "":
		return r.Region
	}
	return r.Region + "/" + r.Zone
}

// What describes, for users, the machines that can use it: a machine type, or the machines that a commitment covers.
func (r *Reserved) What() string {
	if r.Commitment != nil {
		return r.Commitment.What
	}
	return r.InstanceType
}

// Has returns the maximum amount that may be in use at once.
func (r *Reserved) Has() apitypes.Amount {
	if r.Commitment != nil {
		return r.Commitment.Has
	}
	return Machines(r.Count)
}

// Takes returns the amount that one machine of an offer uses; ok is false if the offer's machines cannot use the
// capacity.
func (r *Reserved) Takes(o *Offer) (a apitypes.Amount, ok bool) {
	if r.Cloud != o.Cloud || r.Region != "" && r.Region != o.Region || r.Zone != "" && r.Zone != o.Zone || o.Attached {
		return a, false
	}
	if r.Commitment == nil {
		return Machines(1), r.InstanceType == o.InstanceType
	}
	a, ok = r.Commitment.Takes[o.Region+"/"+o.InstanceType]
	return a, ok
}

// Covers reports whether machines of an offer can use the capacity.
func (r *Reserved) Covers(o *Offer) bool {
	_, ok := r.Takes(o)
	return ok
}

// maxReserved and maxReservedBytes limit the reserved capacity in a snapshot, in number and in
// bytes.
const (
	maxReserved      = 10_000
	maxReservedBytes = 8 << 20
)

// Check returns an error if a field is invalid. The error wraps [ErrBadData].
func (r *Reserved) Check() error {
	if !table.ValidName(r.Cloud) || r.Zone != "" && !table.ValidName(r.Zone) || !table.ValidName(r.ID) {
		return fmt.Errorf("%w: reserved capacity %.64q: an invalid name", skypilot.ErrBadData, r.ID)
	}
	if !(r.USDPerHour >= 0 && r.USDPerHour <= table.MaxUSDPerHour) {
		return fmt.Errorf("%w: reserved capacity %s: %v USD an hour", skypilot.ErrBadData, r.ID, r.USDPerHour)
	}
	if r.Commitment != nil {
		return r.checkCommitment()
	}
	if !table.ValidName(r.Region) || !table.ValidName(r.InstanceType) {
		return fmt.Errorf("%w: reserved capacity %.64q: an invalid name", skypilot.ErrBadData, r.ID)
	}
	if r.Count < 1 || r.Count > 1_000_000 {
		return fmt.Errorf("%w: reserved capacity %s: %d machines", skypilot.ErrBadData, r.ID, r.Count)
	}
	return nil
}

func (r *Reserved) checkCommitment() error {
	c := r.Commitment
	if r.Region != "" && !table.ValidName(r.Region) || r.InstanceType != "" || r.Count != 0 {
		return fmt.Errorf(
			"%w: commitment %s has an invalid region, a machine type or a count",
			skypilot.ErrBadData,
			r.ID,
		)
	}
	if err := c.Has.Check(); err != nil {
		return fmt.Errorf("%w: commitment %s: %w", skypilot.ErrBadData, r.ID, err)
	}
	for what, takes := range c.Takes {
		region, kind, ok := strings.Cut(what, "/")
		if !ok || !table.ValidName(region) || !table.ValidName(kind) || r.Region != "" && r.Region != region {
			return fmt.Errorf("%w: commitment %s: %.64q is not REGION/TYPE", skypilot.ErrBadData, r.ID, what)
		}
		if err := takes.Check(); err != nil {
			return fmt.Errorf("%w: commitment %s: %s: %w", skypilot.ErrBadData, r.ID, what, err)
		}
	}
	return nil
}

// Reserved returns the account's reserved capacity, sorted by cloud and ID.
func (c *Catalog) Reserved() []Reserved { return slices.Clone(c.reserved) }

// Reserves reports whether the account has reserved capacity.
func (c *Catalog) Reserves() bool { return len(c.reserved) > 0 }

// WithReserved returns a catalogue without the reserved capacity that out selects and with the new capacity in. The
// error wraps [ErrBadData].
func (c *Catalog) WithReserved(out func(*Reserved) bool, in []Reserved) (*Catalog, error) {
	next := newCatalog(c.cols)
	for _, r := range c.reserved {
		if !out(&r) {
			next.reserved = append(next.reserved, r)
		}
	}
	next.reserved = append(next.reserved, in...)
	next.unknown = slices.DeleteFunc(slices.Clone(c.unknown), func(u unknown) bool {
		return slices.ContainsFunc(next.reserved, func(r Reserved) bool { return r.Cloud == u.Cloud && r.ID == u.ID })
	})
	return next, sortAndCheck(next.reserved)
}

// CloudAnswer describes the part of the account's capacity for which a cloud was asked.
type CloudAnswer struct {
	Cloud  string
	Region string // empty means all regions
	// Plans is set if the cloud was asked for commitments (ByCommittedUse, BySavingsPlan), not for other capacity.
	Plans bool
	Now   time.Time
}

// endedFor is the time for which ended capacity is kept after the cloud has stopped listing it.
const endedFor = 24 * time.Hour

// replaces reports whether the cloud's answer replaces r. Answers never replace capacity from the settings that has
// not ended.
func (t CloudAnswer) replaces(r *Reserved) bool {
	if !r.Until.IsZero() && r.Until.Before(t.Now.Add(-endedFor)) {
		return true
	}
	plan := r.By == ByCommittedUse || r.By == BySavingsPlan
	return r.Cloud == t.Cloud && (t.Region == "" || t.Region == r.Region) && r.By != BySettings && plan == t.Plans
}

// WithAnswer returns a catalogue in which found, the cloud's answer, replaces its previous answer to the same question.
// It also drops capacity that ended a day ago or earlier. The error wraps [ErrBadData].
func (c *Catalog) WithAnswer(t CloudAnswer, found []Reserved) (*Catalog, error) {
	return c.WithReserved(t.replaces, found)
}

func sortAndCheck(all []Reserved) error {
	slices.SortFunc(all, func(a, b Reserved) int {
		return strings.Compare(a.Cloud+"/"+a.ID, b.Cloud+"/"+b.ID)
	})
	if len(all) > maxReserved {
		return fmt.Errorf("%w: %d reservations", skypilot.ErrBadData, len(all))
	}
	for i := range all {
		if err := all[i].Check(); err != nil {
			return err
		}
		if i > 0 && all[i-1].Cloud == all[i].Cloud && all[i-1].ID == all[i].ID {
			return fmt.Errorf("%w: reserved capacity %s of %s is listed twice", skypilot.ErrBadData, all[i].ID,
				all[i].Cloud)
		}
	}
	return nil
}
