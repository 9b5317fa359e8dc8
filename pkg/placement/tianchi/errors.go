package tianchi

import (
	"errors"
	"fmt"
)

// ErrData is what every [Error] is.
var ErrData = errors.New("bad placement data")

// Error is a mistake in a file.
type Error struct {
	File   string
	Row    int    // from 1; 0 where it is the file itself
	Field  string // empty where it is the row itself
	Reason string
}

func (e *Error) Error() string {
	s := e.File
	if e.Row > 0 {
		s += fmt.Sprintf(": row %d", e.Row)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Reason
}

// Is makes every Error an ErrData.
func (e *Error) Is(target error) bool { return target == ErrData }
