package market

import (
	"errors"
	"fmt"
)

// ErrBadData matches every *BadData in errors.Is.
var ErrBadData = errors.New("bad market data")

// BadData describes an error in a file. Row is a line of a CSV file (the header is line 1) or the index of a value in
// a trace. Column is the name of a column or field.
type BadData struct {
	File   string
	Row    int
	Column string
	Reason string
}

// Error returns a message with file, row, column and reason.
func (e *BadData) Error() string {
	s := e.File
	if e.Row > 0 {
		s += fmt.Sprintf(": row %d", e.Row)
	}
	if e.Column != "" {
		s += ", column " + e.Column
	}
	return s + ": " + e.Reason
}

// Is makes errors.Is(err, ErrBadData) true.
func (e *BadData) Is(target error) bool { return target == ErrBadData }
