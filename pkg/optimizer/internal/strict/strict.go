// Package strict reads the tokens of one JSON text. Unknown, repeated and missing fields, values of the wrong kind
// and trailing text are errors that name the field. The reader itself stores nothing of the text.
package strict

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Error describes an error in a field of a text. An empty Field means the whole text. Err is the decoder's error if
// the text is not valid JSON.
type Error struct {
	Field, Reason string
	Err           error
}

// Error implements error.
func (e *Error) Error() string { return e.Field + ": " + e.Reason }

// Reader reads a text. The decoder tracks the path of the last value, which is the field name in errors.
type Reader struct{ dec *jsontext.Decoder }

// New returns a reader of a text.
func New(r io.Reader) Reader { return Reader{jsontext.NewDecoder(r)} }

// Field is one member of an object: its name, whether it is required, and how its value is read.
type Field struct {
	name     string
	required bool
	read     func() error
}

// Required returns a required field.
func Required(name string, read func() error) Field { return Field{name, true, read} }

// Optional returns an optional field.
func Optional(name string, read func() error) Field { return Field{name, false, read} }

// Object reads an object with the given fields.
func (p Reader) Object(fields []Field) error {
	if err := p.open('{'); err != nil {
		return err
	}
	seen := 0
	for {
		tok, err := p.token()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			break
		}
		i := 0
		for name := tok.String(); i < len(fields) && fields[i].name != name; {
			i++
		}
		if i == len(fields) {
			return p.Errorf("unknown field")
		}
		seen |= 1 << i
		if err := fields[i].read(); err != nil {
			return err
		}
	}
	for i, f := range fields {
		if f.required && seen&(1<<i) == 0 {
			return p.Errorf("field %q is missing", f.name)
		}
	}
	return nil
}

// List reads an array with at most the given number of entries and calls read for each. Null counts as an empty
// array, because Go programs write it so.
func (p Reader) List(most int, read func() error) error {
	if null, err := p.Null(); null {
		return err
	}
	if err := p.open('['); err != nil {
		return err
	}
	for n := 0; p.dec.PeekKind() != ']'; n++ {
		if n == most {
			list := p.dec.StackPointer()
			if n > 0 {
				list = list.Parent() // of the last entry
			}
			return &Error{Field: fieldPath(list), Reason: fmt.Sprintf("too many entries, at most %d are allowed", most)}
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p Reader) open(want jsontext.Kind) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != want {
		return p.Errorf("is %s, not %s", describeKind(tok.Kind()), describeKind(want))
	}
	return nil
}

// Text reads a string.
func (p Reader) Text(s *string) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		return p.Errorf("is %s, not a string", describeKind(tok.Kind()))
	}
	*s = tok.String()
	return nil
}

// Texts reads an array with at most the given number of strings.
func (p Reader) Texts(most int, list *[]string) error {
	return p.List(most, func() error {
		var s string
		err := p.Text(&s)
		*list = append(*list, s)
		return err
	})
}

// Number reads a number.
func (p Reader) Number(x *float64) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '0' {
		return p.Errorf("is %s, not a number", describeKind(tok.Kind()))
	}
	*x = tok.Float()
	return nil
}

// Null reads a null and reports whether there was one.
func (p Reader) Null() (bool, error) {
	if p.dec.PeekKind() != 'n' {
		return false, nil
	}
	_, err := p.token()
	return true, err
}

// End checks that nothing follows.
func (p Reader) End() error {
	switch _, err := p.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &Error{Reason: "is followed by more text"}
	default:
		return p.failed(err)
	}
}

func (p Reader) token() (jsontext.Token, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return tok, p.failed(err)
	}
	return tok, nil
}

// failed converts a decoder error to one that names the field. Errors of the underlying reader pass through.
func (p Reader) failed(err error) error {
	if errors.Is(err, io.EOF) {
		return &Error{Reason: "is empty or ends early"}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("read: %w", err)
	}
	reason := "is not valid JSON"
	if syntax.Err != nil {
		reason = Clip(syntax.Err.Error())
	}
	return &Error{fieldPath(syntax.JSONPointer), fmt.Sprintf("%s at byte %d", reason, syntax.ByteOffset), err}
}

// Errorf returns an error about the last value read.
func (p Reader) Errorf(format string, args ...any) error {
	return &Error{Field: fieldPath(p.dec.StackPointer()), Reason: fmt.Sprintf(format, args...)}
}

// fieldPath converts a JSON pointer to Go notation: tasks[3].candidates[0].usd.
func fieldPath(ptr jsontext.Pointer) string {
	var b strings.Builder
	for seg := range ptr.Tokens() {
		if seg != "" && strings.Trim(seg, "0123456789") == "" {
			b.WriteString("[" + Clip(seg) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(Clip(seg))
	}
	return b.String()
}

func describeKind(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

// Clip shortens a long name so that it does not fill an error message.
func Clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
