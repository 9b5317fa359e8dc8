package catalog

import (
	"errors"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// ErrBadData is what every [DataError] wraps.
var ErrBadData = skypilot.ErrBadData

// DataError says what in a catalogue file cannot be read and where: the name of the File within its directory, the Line
// (from 1; 0 is the file as a whole), the Column by its header (empty is the line as a whole), and the Reason with the
// offending value quoted.
type DataError = skypilot.DataError

// ErrBadSnapshot is wrapped by the errors of [ReadSnapshot].
var ErrBadSnapshot = table.ErrBadSnapshot

// ErrBadQuery is what every [QueryError] wraps.
var ErrBadQuery = errors.New("bad query")

// QueryError says that a query makes no sense whatever is on offer: a range
// upside down, an accelerator nobody has heard of.
type QueryError struct {
	// Field is the field of Query.
	Field string
	// Reason says what is wrong with it and, where it can, what was meant.
	Reason string
	// Err is the cause, such as an *accel.UnknownError; may be nil.
	Err error
}

func (e *QueryError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap gives ErrBadQuery and the cause.
func (e *QueryError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrBadQuery}
	}
	return []error{ErrBadQuery, e.Err}
}

// ErrNoOffer is what every [NoOfferError] wraps.
var ErrNoOffer = errors.New("no offer matches")

// NoOfferError says that nothing in the catalogue matches a query, and what
// would.
type NoOfferError struct {
	Query Query
	// Relaxations are the filters each of which alone stands in the way, those
	// first that are usually the easiest to give up. Empty means that no single
	// filter can be blamed.
	Relaxations []Relaxation
	text        string
}

// Relaxation is one filter that, relaxed alone, would give offers.
type Relaxation struct {
	// Filter is the field of Query, in JSON's spelling (acceleratorCount).
	Filter string
	// Text says in words what is on offer instead: "V100:4 on aws, azure, gcp".
	Text string
	// Matches counts the offers there would be without the filter.
	Matches int
	// Closest is the offer nearest to what was asked.
	Closest Match
}

func (e *NoOfferError) Error() string { return e.text }

// Unwrap makes errors.Is(err, ErrNoOffer) true.
func (e *NoOfferError) Unwrap() error { return ErrNoOffer }

// ErrUnknownOffer is wrapped by [Catalog.Lookup] for an ID that names nothing.
var ErrUnknownOffer = errors.New("unknown offer")
