package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Reserved is capacity that the account pays for whether it is used or not: a reservation, or the machines that a
// commitment covers.
type Reserved struct {
	Cloud string `json:"cloud"`
	// ID is the cloud's own, or a name that the settings give; unique in the cloud.
	ID     string `json:"id"`
	Region string `json:"region"`
	// Zone is as offers have it; empty is any zone of the region.
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType"`
	// Count is how many machines may run on it at once, of those that are not in use by others.
	Count int `json:"count"`
	// USDPerHour is what one more hour of one machine costs on the margin, beside its disk and address; mostly 0.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Until is when it ends; zero is unknown, or never.
	Until time.Time `json:"until,omitzero"`
	// By is how it is known: the cloud's word for it, or BySettings.
	By string `json:"by,omitempty"`
}

// BySettings is how capacity is known that no cloud was asked about.
const BySettings = "settings"

// Where is its place as people write it: REGION, or REGION/ZONE.
func (r *Reserved) Where() string {
	if r.Zone == "" {
		return r.Region
	}
	return r.Region + "/" + r.Zone
}

// Covers says whether machines of an offer can run on it.
func (r *Reserved) Covers(o *Offer) bool {
	return r.Cloud == o.Cloud && r.Region == o.Region && (r.Zone == "" || r.Zone == o.Zone) &&
		r.InstanceType == o.InstanceType && !o.Attached
}

// mostReserved bounds how much a snapshot may have of them, in number and in bytes.
const (
	mostReserved      = 10_000
	mostReservedBytes = 8 << 20
)

// Check says what is wrong with it. The error wraps [ErrBadData].
func (r *Reserved) Check() error {
	if !table.ValidName(r.Cloud) || !table.ValidName(r.Region) || r.Zone != "" && !table.ValidName(r.Zone) ||
		!table.ValidName(r.InstanceType) || !table.ValidName(r.ID) {
		return fmt.Errorf("%w: reserved capacity %.64q: a name that it cannot have", skypilot.ErrBadData, r.ID)
	}
	if r.Count < 1 || r.Count > 1_000_000 || !(r.USDPerHour >= 0 && r.USDPerHour <= table.MaxUSDPerHour) {
		return fmt.Errorf("%w: reserved capacity %s: %d machines at %v USD an hour", skypilot.ErrBadData, r.ID,
			r.Count, r.USDPerHour)
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
	return next, sorted(next.reserved)
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

// encodeReserved writes it in front of the offers: its length, then JSON.
func encodeReserved(all []Reserved) ([]byte, error) {
	body, err := json.Marshal(all)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...), err
}

func decodeReserved(raw []byte) (all []Reserved, rest []byte, err error) {
	size, n := binary.Uvarint(raw)
	if n <= 0 || size > mostReservedBytes || size > uint64(len(raw)-n) { //nolint:gosec // n is at most its length
		return nil, nil, fmt.Errorf("%w: cut short", table.ErrBadSnapshot)
	}
	raw = raw[n:]
	if err := json.Unmarshal(raw[:size], &all); err != nil {
		return nil, nil, fmt.Errorf("%w: reserved capacity: %w", table.ErrBadSnapshot, err)
	}
	if err := sorted(all); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", table.ErrBadSnapshot, err)
	}
	return all, raw[size:], nil
}
