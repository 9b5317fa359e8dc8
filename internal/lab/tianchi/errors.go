package tianchi

import (
	"errors"
	"fmt"
)

// ErrData matches every [Error] in errors.Is.
var ErrData = errors.New("bad placement data")

// Error is an error in a file.
type Error struct {
	File   string
	Row    int    // from 1; 0 if the error concerns the whole file
	Field  string // empty if the error concerns the whole row
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

// Is makes errors.Is(err, ErrData) true.
func (e *Error) Is(target error) bool { return target == ErrData }
