package dag

import (
	"errors"
	"strconv"
	"strings"
)

// Kinds of errors that a caller may want to tell from the rest with errors.Is.
var (
	// ErrCycle is in the chain of an error about tasks that wait for each other.
	ErrCycle = errors.New("dependency cycle")
	// ErrLimit is in the chain of an error about a file or a job beyond one of the limits.
	ErrLimit = errors.New("beyond a limit")
)

// Error is what a reader or Validate found wrong: the first thing, in the order of the file as far
// as it can be told there, else in the order of the tasks.
type Error struct {
	File string // as it was named to the reader; empty if the job was not read from a file
	// Line and Column count from 1, the column in bytes; 0 is unknown.
	Line, Column int
	// Field is the path to the value as its form spells it: tasks.train.resources.cpus in YAML and
	// JSON, adag/job[3]/@runtime in XML. Empty if the error is about the whole file.
	Field  string
	Reason string
	Hint   string // what to do about it; may be empty

	cause error
}

// Error prints file:line:col: field: reason (hint), without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
	}
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
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteByte(')')
	}
	return b.String()
}

// Unwrap returns what caused the error: ErrCycle, ErrLimit, an error of the reader it came from, or nil.
func (e *Error) Unwrap() error { return e.cause }

// fault makes an error that does not know yet where it is.
func fault(reason, hint string) error { return &Error{Reason: reason, Hint: hint} }

// overLimit makes an error that is ErrLimit.
func overLimit(reason, hint string) error {
	return &Error{Reason: reason, Hint: hint, cause: ErrLimit}
}

// within puts the path element elem before the field of err.
func within(elem string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Field = joinField(elem, e.Field)
	}
	return err
}

// at puts err at a position, unless it has one already.
func at(pos position, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line, e.Column = int(pos.line), int(pos.column)
	}
	return err
}

// inFile puts err in a file, unless it is in one already.
func inFile(file string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = file
	}
	return err
}

// withinKey puts a key of the file before the field of err. Keys that would not look like a path
// element stand in brackets: file_mounts["/data"].
func withinKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return within(keyElement(key), err)
}

func keyElement(key string) string {
	ok := key != "" && len(key) <= maxNameBytes && (isAlnum(key[0]) || key[0] == '_')
	for i := 1; ok && i < len(key); i++ {
		ok = isAlnum(key[i]) || key[i] == '_' || key[i] == '-' || key[i] == '.'
	}
	if ok {
		return key
	}
	return "[" + quote(key) + "]"
}

// joinField joins two paths: a.b, but a[0] and, in XML, a/b.
func joinField(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || b[0] == '[' || b[0] == '/':
		return a + b
	}
	return a + "." + b
}

// index is the path element of the i-th of a list.
func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// quote shows a piece of the file in a message: on one line, not too long.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}
