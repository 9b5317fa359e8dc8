// Package strict walks the tokens of one JSON text: unknown, repeated and missing fields, values of another kind and
// trailing text are errors that name the field. Memory is what the caller keeps.
package strict

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says which field of a text is wrong, and how. An empty Field is the text itself. Err is the decoder's own
// error, if it is not JSON.
type Error struct {
	Field, Reason string
	Err           error
}

// Error implements error.
func (e *Error) Error() string { return e.Field + ": " + e.Reason }

// Reader reads a text. The decoder keeps the path to the value last read, which names the field in errors.
type Reader struct{ dec *jsontext.Decoder }

// New is a reader of a text.
func New(r io.Reader) Reader { return Reader{jsontext.NewDecoder(r)} }

// Field is one member of an object: its name, whether it must be there, and how its value is read.
type Field struct {
	name     string
	required bool
	read     func() error
}

// Need is a field that must be there.
func Need(name string, read func() error) Field { return Field{name, true, read} }

// May is a field that may be left out.
func May(name string, read func() error) Field { return Field{name, false, read} }

// Object reads an object of some fields.
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

// List reads an array of at most so many entries, entry by entry. Null counts as an empty one, for so Go
// programs write it.
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
				list = list.Parent() // of the entry that was read last
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

// Texts reads an array of at most so many strings.
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

// Null reads a null, and says whether there was one.
func (p Reader) Null() (bool, error) {
	if p.dec.PeekKind() != 'n' {
		return false, nil
	}
	_, err := p.token()
	return true, err
}

// End makes sure that nothing follows.
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

// failed turns a decoder's error into one that names the field; errors of the
// underlying reader pass through.
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

// Errorf is an error about the value that was read last.
func (p Reader) Errorf(format string, args ...any) error {
	return &Error{Field: fieldPath(p.dec.StackPointer()), Reason: fmt.Sprintf(format, args...)}
}

// fieldPath writes a JSON pointer the way Go and most people name a field:
// tasks[3].candidates[0].usd.
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

// Clip keeps a hostile name from filling an error message.
func Clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
