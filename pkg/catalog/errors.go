package catalog

import (
	"errors"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// ErrBadData is wrapped by every [DataError].
var ErrBadData = skypilot.ErrBadData

// DataError describes data in a catalogue file that cannot be read: the name of the File within its directory, the
// Line (from 1; 0 means the whole file), the Column by its header (empty means the whole line), and the Reason with
// the invalid value quoted.
type DataError = skypilot.DataError

// ErrBadSnapshot is wrapped by every error of [ReadSnapshot].
var ErrBadSnapshot = table.ErrBadSnapshot

// ErrBadQuery is wrapped by every [QueryError].
var ErrBadQuery = errors.New("bad query")

// QueryError is the error for an invalid query, such as a range whose minimum is above its maximum or an unknown
// accelerator. It does not depend on the offers in the catalogue.
type QueryError struct {
	// Field is the field of Query.
	Field string
	// Reason describes the fault and, if possible, suggests the intended value.
	Reason string
	// Err is the cause, such as an *accel.UnknownError; it may be nil.
	Err error
}

func (e *QueryError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns ErrBadQuery and the cause.
func (e *QueryError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrBadQuery}
	}
	return []error{ErrBadQuery, e.Err}
}

// ErrNoOffer is wrapped by every [NoOfferError].
var ErrNoOffer = errors.New("no offer matches")

// NoOfferError is the error for a query that no offer matches. It lists the filters to relax.
type NoOfferError struct {
	Query Query
	// Relaxations are the filters that each exclude every offer: without any one of them there are matches. Those
	// that users usually give up first come first. If it is empty, dropping a single filter does not help.
	Relaxations []Relaxation
	text        string
}

// Relaxation is a filter without which the query would match offers.
type Relaxation struct {
	// Filter is the field of Query, in JSON's spelling (acceleratorCount).
	Filter string
	// Text describes the available offers in words: "V100:4 on aws, azure, gcp".
	Text string
	// Matches is the number of offers that match without the filter.
	Matches int
	// Closest is the matching offer that is nearest to the query.
	Closest Match
}

func (e *NoOfferError) Error() string { return e.text }

// Unwrap makes errors.Is(err, ErrNoOffer) true.
func (e *NoOfferError) Unwrap() error { return ErrNoOffer }

// ErrUnknownOffer is wrapped by the error of [Catalog.Lookup] for an ID that no offer has.
var ErrUnknownOffer = errors.New("unknown offer")
