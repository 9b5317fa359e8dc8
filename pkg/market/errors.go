package market

import (
	"errors"
	"fmt"
)

// ErrBadData is what every BadData is.
var ErrBadData = errors.New("bad market data")

// BadData says what is wrong with a file and where: Row is a line of a CSV file (the header is line 1) or the index of
// a value in a trace, Column a column's or field's name.
type BadData struct {
	File   string
	Row    int
	Column string
	Reason string
}

// Error names file, row and column.
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
