package fault

import (
	"cmp"
	"errors"
	"slices"
)

// most is the number of faults that are reported at once. The faults of a longer list usually have one cause.
const most = 20

// Faults collects the faults of a file, so that a user sees all of them at once. The zero value has none.
type Faults struct {
	all   []*Error
	cut   bool
	other error // not a fault of the file: the reader stops
}

// Add adds the faults in err; nil adds none. It returns false if the reader must stop: after a limit beyond which
// reading could be expensive, after an error that is not a fault of the file, or if there are enough faults.
func (f *Faults) Add(err error) (more bool) {
	if err == nil {
		return true
	}
	e, ok := err.(*Error) //nolint:errorlint // a wrapped one would lose its text
	if !ok {
		f.other = cmp.Or(f.other, err)
		return false
	}
	also := e.Also
	f.cut = f.cut || e.Cut
	e.Also, e.Cut = nil, false
	for _, o := range append([]*Error{e}, also...) {
		// A fault in a part that several tasks share is found for each of them.
		if !slices.ContainsFunc(f.all, func(have *Error) bool { return have.line(have.Hint) == o.line(o.Hint) }) {
			f.all = append(f.all, o)
		}
	}
	f.cut = f.cut || len(f.all) > most
	return !f.cut && !errors.Is(e, ErrLimit)
}

// With adds the faults in errs, until the reader must stop, and returns Err.
func (f *Faults) With(errs ...error) error {
	for _, err := range errs {
		if !f.Add(err) {
			break
		}
	}
	return f.Err()
}

// None reports whether there is no fault.
func (f *Faults) None() bool { return f.all == nil && f.other == nil }

// Err returns an [Error] with all faults, in the order of their positions, or nil. If there is an error that is not a
// fault of the file, Err returns only that.
func (f *Faults) Err() error {
	if f.other != nil || f.all == nil {
		return f.other
	}
	slices.SortStableFunc(f.all, func(a, b *Error) int {
		if a.Line == 0 || b.Line == 0 {
			return 0 // not known yet
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	first := f.all[0]
	first.Also, first.Cut = slices.Clone(f.all[1:min(len(f.all), most)]), f.cut
	if len(first.Also) == 0 {
		first.Also = nil
	}
	return first
}
