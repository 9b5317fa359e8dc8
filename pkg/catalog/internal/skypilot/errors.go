package skypilot

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadData is what every [DataError] wraps.
var ErrBadData = errors.New("bad catalogue data")

// DataError says what in a catalogue file cannot be read and where.
type DataError struct {
	// File is the file's name within its directory.
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	// Column is the header name of the field, empty if it is the line as a whole.
	Column string
	// Reason says what is wrong, with the offending value quoted.
	Reason string
}

func (e *DataError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Column != "" {
		b.WriteString(e.Column + ": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Unwrap makes errors.Is(err, ErrBadData) true.
func (e *DataError) Unwrap() error { return ErrBadData }
