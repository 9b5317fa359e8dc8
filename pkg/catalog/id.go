package catalog

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// ErrBadOfferID is wrapped by every error of [ParseOfferID].
var ErrBadOfferID = errors.New("not an offer ID")

// OfferID is the identity of an offer, and of a market choice if Market is set.
type OfferID struct {
	Cloud, Region string
	// Zone is empty for clouds that sell by region.
	Zone         string
	InstanceType string
	// Accelerator and AcceleratorCount are set only for accelerators attached to a machine type that is also sold
	// without them.
	Accelerator      string
	AcceleratorCount float64
	Service          Service
	// Market is AnyMarket if the ID has no market.
	Market Market
}

// String returns the ID: CLOUD/REGION[/ZONE]/TYPE[+ACCELERATOR:COUNT][/SERVICE][/MARKET].
func (id OfferID) String() string {
	var b strings.Builder
	b.Grow(len(id.Cloud) + len(id.Region) + len(id.Zone) + len(id.InstanceType) + len(id.Accelerator) + 32)
	b.WriteString(id.Cloud)
	b.WriteByte('/')
	b.WriteString(id.Region)
	b.WriteByte('/')
	if id.Zone != "" {
		b.WriteString(id.Zone)
		b.WriteByte('/')
	}
	b.WriteString(id.typeString())
	if id.Service != NoService {
		b.WriteByte('/')
		b.WriteString(string(id.Service))
	}
	if id.Market != AnyMarket {
		b.WriteByte('/')
		b.WriteString(id.Market.String())
	}
	return b.String()
}

// typeString returns the TYPE part: the machine type and its attached accelerators.
func (id OfferID) typeString() string {
	if id.Accelerator == "" {
		return id.InstanceType
	}
	return table.TypeString(id.InstanceType, id.Accelerator, id.AcceleratorCount)
}

// ParseOfferID reads an ID as [OfferID.String] writes it. It checks the form, not whether the offer exists: see
// [Catalog.Lookup].
//
// It reads the ID from the end: a market, a service, and then three parts (no zone) or four. This is unambiguous
// because [Load] rejects machine types that have the name of a market or a service.
func ParseOfferID(s string) (OfferID, error) {
	bad := func(why string) (OfferID, error) {
		return OfferID{}, fmt.Errorf("%w: %q: %s", ErrBadOfferID, s, why)
	}
	parts := strings.Split(s, "/")
	if len(parts) > 6 {
		return bad("too many parts; want CLOUD/REGION/ZONE/TYPE[/SERVICE][/MARKET]")
	}
	for _, p := range parts {
		if p == "" {
			return bad("an empty part")
		}
	}
	var id OfferID
	switch parts[len(parts)-1] {
	case Spot.String():
		id.Market, parts = Spot, parts[:len(parts)-1]
	case OnDemand.String():
		id.Market, parts = OnDemand, parts[:len(parts)-1]
	}
	if n := len(parts); n > 0 {
		if service := Service(parts[n-1]); service == EMR || service == Dataproc {
			id.Service, parts = service, parts[:n-1]
		}
	}
	switch len(parts) {
	case 3:
	case 4:
		id.Zone = parts[2]
	default:
		return bad("want CLOUD/REGION/ZONE/TYPE[/SERVICE][/MARKET], or without ZONE if the cloud sells by region")
	}
	id.Cloud, id.Region = parts[0], parts[1]
	machine, attached, ok := strings.Cut(parts[len(parts)-1], "+")
	id.InstanceType = machine
	if machine == "" {
		return bad("no machine type")
	}
	if !ok {
		return id, nil
	}
	name, count, ok := strings.Cut(attached, ":")
	n, err := strconv.ParseFloat(count, 64)
	if !ok || name == "" || err != nil || n <= 0 || math.IsInf(n, 0) || math.IsNaN(n) || formatCount(n) != count {
		return bad("attached accelerators are written +NAME:COUNT")
	}
	id.Accelerator, id.AcceleratorCount = name, n
	return id, nil
}

// formatCount writes a count or a size with the fewest digits that read back as the same number: 8, 0.5, 12288.
func formatCount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
