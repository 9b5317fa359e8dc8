package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Reserved is capacity that the account pays for whether it is used or not: a reservation, or what it has committed
// itself to use.
type Reserved struct {
	Cloud string `json:"cloud"`
	// ID is the cloud's own, or a name that the settings give; unique in the cloud.
	ID string `json:"id"`
	// Region is where it is; empty, of a commitment, is everywhere.
	Region string `json:"region,omitempty"`
	// Zone is as offers have it; empty is any zone of the region.
	Zone string `json:"zone,omitempty"`
	// InstanceType is what machines have to be; empty, of a commitment, is what that says.
	InstanceType string `json:"instanceType,omitempty"`
	// Count is how many machines may run on it at once, of those that are not in use by others; 0 of a commitment.
	Count int `json:"count,omitempty"`
	// USDPerHour is what one more hour of one machine costs on the margin, beside its disk and address; mostly 0.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Until is when it ends; zero is unknown, or never.
	Until time.Time `json:"until,omitzero"`
	// By is how it is known: the cloud's word for it, or BySettings.
	By string `json:"by,omitempty"`
	// Total is how much of it there is with what others use of it; zero is not known. No snapshot has it.
	Total apitypes.Amount `json:"-"`
	// Commitment is of which machines of several types take an amount each; nil where it is counted in machines.
	Commitment *Commitment `json:"commitment,omitempty"`
}

// Commitment is capacity that machines of several types share.
type Commitment struct {
	// What names the machines that it covers, to people.
	What string `json:"what"`
	// Has is how much may be in use at once, of what is not in use by others.
	Has apitypes.Amount `json:"has"`
	// Takes is how much of it a machine takes, by REGION/TYPE. What is not in it is not covered.
	Takes map[string]apitypes.Amount `json:"takes"`
}

// How capacity is known: BySettings that no cloud was asked about, the others by clouds' words for commitments.
const (
	BySettings     = "settings"
	ByCommittedUse = "committed use"
	BySavingsPlan  = "savings plan"
)

// Where is its place as people write it: REGION, or REGION/ZONE.
func (r *Reserved) Where() string {
	switch {
	case r.Region == "":
		return "all regions"
	case r.Zone == "":
		return r.Region
	}
	return r.Region + "/" + r.Zone
}

// What names the machines that run on it, to people: a type, or what a commitment is for.
func (r *Reserved) What() string {
	if r.Commitment != nil {
		return r.Commitment.What
	}
	return r.InstanceType
}

// Has is how much of it may be in use at once.
func (r *Reserved) Has() apitypes.Amount {
	if r.Commitment != nil {
		return r.Commitment.Has
	}
	return capacity.Machines(r.Count)
}

// Takes is how much of it one machine of an offer takes; ok is false where machines of the offer cannot run on it.
func (r *Reserved) Takes(o *Offer) (a apitypes.Amount, ok bool) {
	if r.Cloud != o.Cloud || r.Region != "" && r.Region != o.Region || r.Zone != "" && r.Zone != o.Zone || o.Attached {
		return a, false
	}
	if r.Commitment == nil {
		return capacity.Machines(1), r.InstanceType == o.InstanceType
	}
	a, ok = r.Commitment.Takes[o.Region+"/"+o.InstanceType]
	return a, ok
}

// Covers says whether machines of an offer can run on it.
func (r *Reserved) Covers(o *Offer) bool {
	_, ok := r.Takes(o)
	return ok
}

// mostReserved bounds how much a snapshot may have of them, in number and in bytes.
const (
	mostReserved      = 10_000
	mostReservedBytes = 8 << 20
)

// Check says what is wrong with it. The error wraps [ErrBadData].
func (r *Reserved) Check() error {
	if !table.ValidName(r.Cloud) || r.Zone != "" && !table.ValidName(r.Zone) || !table.ValidName(r.ID) {
		return fmt.Errorf("%w: reserved capacity %.64q: a name that it cannot have", skypilot.ErrBadData, r.ID)
	}
	if !(r.USDPerHour >= 0 && r.USDPerHour <= table.MaxUSDPerHour) {
		return fmt.Errorf("%w: reserved capacity %s: %v USD an hour", skypilot.ErrBadData, r.ID, r.USDPerHour)
	}
	if r.Commitment != nil {
		return r.checkCommitment()
	}
	if !table.ValidName(r.Region) || !table.ValidName(r.InstanceType) {
		return fmt.Errorf("%w: reserved capacity %.64q: a name that it cannot have", skypilot.ErrBadData, r.ID)
	}
	if r.Count < 1 || r.Count > 1_000_000 {
		return fmt.Errorf("%w: reserved capacity %s: %d machines", skypilot.ErrBadData, r.ID, r.Count)
	}
	return nil
}

func (r *Reserved) checkCommitment() error {
	c := r.Commitment
	if r.Region != "" && !table.ValidName(r.Region) || r.InstanceType != "" || r.Count != 0 {
		return fmt.Errorf("%w: commitment %s is said to be of machines", skypilot.ErrBadData, r.ID)
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

// Reserved is the capacity that the account has already, by cloud and ID.
func (c *Catalog) Reserved() []Reserved { return slices.Clone(c.reserved) }

// Reserves says whether there is any.
func (c *Catalog) Reserves() bool { return len(c.reserved) > 0 }

// WithReserved returns a catalogue with this capacity in place of what out names. The error wraps [ErrBadData].
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
	return next, sorted(next.reserved)
}

// Told is which part of what accounts have a cloud was asked about.
type Told struct {
	Cloud  string
	Region string // empty is everywhere
	// Plans are commitments to use so much (ByCommittedUse, BySavingsPlan); else it is all but those.
	Plans bool
	Now   time.Time
}

// endedFor is for how long capacity is kept that has ended and of which nobody tells any more.
const endedFor = 24 * time.Hour

// replaces says whether what a cloud tells now stands in the place of something. What settings name is theirs.
func (t Told) replaces(r *Reserved) bool {
	if !r.Until.IsZero() && r.Until.Before(t.Now.Add(-endedFor)) {
		return true
	}
	plan := r.By == ByCommittedUse || r.By == BySavingsPlan
	return r.Cloud == t.Cloud && (t.Region == "" || t.Region == r.Region) && r.By != BySettings && plan == t.Plans
}

// WithTold returns a catalogue with what a cloud tells now in the place of what it has told of the same before, and
// without what has ended a day ago. The error wraps [ErrBadData].
func (c *Catalog) WithTold(t Told, found []Reserved) (*Catalog, error) {
	return c.WithReserved(t.replaces, found)
}

func sorted(all []Reserved) error {
	slices.SortFunc(all, func(a, b Reserved) int {
		return strings.Compare(a.Cloud+"/"+a.ID, b.Cloud+"/"+b.ID)
	})
	if len(all) > mostReserved {
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
