// Package fault describes an error in a file that a user wrote: its line and field, the reason, and how to fix it.
//
// It also writes parts of such messages: the word that was meant by a misspelt one ([Nearest]), a piece of the file
// ([Quote]) and short amounts ([Number]).
//
// The code that finds a fault may not know its place yet. [New] creates an error without a place; [At], [Within] and
// [InFile] add one on the way up, unless it is already known.
package fault

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrLimit is wrapped by errors for something that exceeds a limit.
var ErrLimit = errors.New("beyond a limit")

// Error describes an error in a file, with its place if it is known.
type Error struct {
	File string // as the user named it; empty if the text was not read from a file
	// Line and Column count from 1, the column in bytes; 0 means unknown.
	Line, Column int
	// Field is the path to the value, as written in the file's format: tasks.train.resources.cpus in YAML and
	// JSON, adag/job[3]/@runtime in XML. Empty if the error is about the whole file.
	Field  string
	Reason string
	Hint   string // how to fix it; may be empty

	Cause error // for errors.Is and As; may be nil

	// Also are further faults of the same file. Their Also is empty. See [Faults].
	Also []*Error
	// Cut is true if there are more faults than Also has.
	Cut bool

	rest any // see WithRest
}

// WithRest adds to err the part of the file that was readable in spite of the fault, for checks that find further
// faults in it.
func WithRest(err error, rest any) error {
	var e *Error
	if errors.As(err, &e) {
		e.rest = rest
	}
	return err
}

// RestOf returns the value that WithRest has added, or nil.
func RestOf(err error) any {
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	return e.rest
}

// Error returns file:line:col: field: reason (hint), without the parts that are unknown, and a line for each further
// fault. A hint that several faults share occurs once.
func (e *Error) Error() string {
	text, told := e.line(e.Hint), map[string]bool{e.Hint: true}
	for _, o := range e.Also {
		hint := o.Hint
		if told[hint] {
			hint = ""
		}
		told[o.Hint] = true
		text += "\n" + o.line(hint)
	}
	if e.Cut {
		text += "\nthere are more errors; fix these first"
	}
	return text
}

func (e *Error) line(hint string) string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		if e.File == "" {
			b.WriteString("line ")
		} else {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(e.Line))
		if e.Column > 0 {
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(e.Column))
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	if hint != "" {
		b.WriteString(" (")
		b.WriteString(hint)
		b.WriteByte(')')
	}
	return b.String()
}

// Unwrap returns the cause of the first fault.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether a further fault has the cause target.
func (e *Error) Is(target error) bool {
	return slices.ContainsFunc(e.Also, func(o *Error) bool { return errors.Is(o, target) })
}

// each calls do for the fault in err and for all further ones.
func each(err error, do func(*Error)) {
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	do(e)
	for _, o := range e.Also {
		do(o)
	}
}

// New returns an error without a place. The hint may be empty.
func New(reason, hint string) error { return &Error{Reason: reason, Hint: hint} }

// OverLimit returns an error that wraps ErrLimit.
func OverLimit(reason, hint string) error {
	return &Error{Reason: reason, Hint: hint, Cause: ErrLimit}
}

// Position is a place in a file, counted from 1; 0 means unknown. It is small because readers store one for every
// task and edge of a job.
type Position struct{ Line, Column int32 }

// At sets the position of the faults in err that have none.
func At(pos Position, err error) error {
	each(err, func(e *Error) {
		if e.Line == 0 {
			e.Line, e.Column = int(pos.Line), int(pos.Column)
		}
	})
	return err
}

// PositionIn converts an offset in a text to a position.
func PositionIn(data []byte, offset int) Position {
	before := data[:min(max(offset, 0), len(data))]
	line, column := 1+bytes.Count(before, []byte{'\n'}), len(before)-bytes.LastIndexByte(before, '\n')
	return Position{Line: int32(line), Column: int32(column)} //nolint:gosec // files have limits far below
}

// InFile sets the file of the faults in err that have none.
func InFile(file string, err error) error {
	each(err, func(e *Error) {
		if e.File == "" {
			e.File = file
		}
	})
	return err
}

// Within prepends the path element elem to the fields of the faults in err.
func Within(elem string, err error) error {
	if err != nil {
		each(err, func(e *Error) { e.Field = Join(elem, e.Field) })
	}
	return err
}

// WithinKey prepends a key of the file to the field of err. Keys that do not look like a path element are put in
// brackets: file_mounts["/data"].
func WithinKey(key string, err error) error {
	if err == nil {
		return nil // saves the cost of KeyElement
	}
	return Within(KeyElement(key), err)
}

// FieldOf returns the first element of the field of err: resources for resources.cpus.
func FieldOf(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	if end := strings.IndexAny(e.Field, ".["); end >= 0 {
		return e.Field[:end]
	}
	return e.Field
}

// KeyElement returns the path element for a key of the file.
func KeyElement(key string) string {
	const longest = 128
	ok := key != "" && len(key) <= longest && (IsAlnum(key[0]) || key[0] == '_')
	for i := 1; ok && i < len(key); i++ {
		ok = IsAlnum(key[i]) || key[i] == '_' || key[i] == '-' || key[i] == '.'
	}
	if ok {
		return key
	}
	return "[" + Quote(key) + "]"
}

// IsAlnum reports whether c is an ASCII letter or digit.
func IsAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Join joins two paths: a.b, but a[0] and, in XML, a/b.
func Join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || b[0] == '[' || b[0] == '/':
		return a + b
	}
	return a + "." + b
}

// Index returns the path element of the i-th item of a list.
func Index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// Quote quotes a piece of the file for a message: on one line, not too long.
func Quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

// CheckString rejects strings that cannot be passed to a process.
func CheckString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return New("contains a NUL byte", "")
	}
	if !utf8.ValidString(s) {
		return New("is not valid UTF-8", "")
	}
	return nil
}
