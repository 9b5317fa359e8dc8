package skypilot

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadData is wrapped by every [DataError].
var ErrBadData = errors.New("bad catalogue data")

// DataError describes data in a catalogue file that cannot be read, and its position.
type DataError struct {
	// File is the file's name within its directory.
	File string
	// Line counts from 1; 0 means the whole file.
	Line int
	// Column is the header name of the field; empty means the whole line.
	Column string
	// Reason describes the fault, with the invalid value quoted.
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
