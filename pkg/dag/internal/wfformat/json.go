package wfformat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/recorded"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/stopping"
)

// jsonReader reads a JSON file token by token, and knows the position of each in the file and in its structure.
type jsonReader struct {
	data  []byte
	dec   *json.Decoder
	start int // offset of the last token
	path  []pathElement
	depth int
	// broken is set after an error with which nothing more can be read.
	broken bool

	// seenLine is the line of offset seenTo, and lineStart the offset of that line. So a new position
	// only needs a scan of the text after the previous position, even in a file of one line.
	seenTo, seenLine, lineStart int
}

// pathElement is a key of an object or an index of an array.
type pathElement struct {
	key     string
	index   int
	isIndex bool
}

// members are the known keys of an object, each with the function that reads its value. Other keys are ignored,
// because other programs write the files and may add keys.
type members map[string]func() error

func newJSONReader(ctx context.Context, data []byte) *jsonReader {
	dec := json.NewDecoder(stopping.Reader(ctx, data))
	dec.UseNumber()
	return &jsonReader{data: data, dec: dec, seenLine: 1}
}

// token reads a token and records its position.
func (r *jsonReader) token() (json.Token, error) {
	from := int(r.dec.InputOffset())
	for from < len(r.data) && (r.data[from] <= ' ' || r.data[from] == ',' || r.data[from] == ':') {
		from++
	}
	r.start = from
	t, err := r.dec.Token()
	if err != nil {
		r.broken = true
		return nil, r.syntax(err)
	}
	if d, ok := t.(json.Delim); ok {
		if d == '{' || d == '[' {
			if r.depth++; r.depth > recorded.MaxDepth {
				r.broken = true
				return nil, fault.At(
					r.position(),
					fault.OverLimit(fmt.Sprintf("is nested more than %d deep", recorded.MaxDepth), ""),
				)
			}
		} else {
			r.depth--
		}
	}
	return t, nil
}

func (r *jsonReader) syntax(err error) error {
	e := &dag.Error{Reason: "is not JSON: " + err.Error(), Cause: err}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Reason = "is not complete JSON: the file ends too early"
		r.start = len(r.data)
	}
	at := fault.PositionIn(r.data, r.start)
	e.Line, e.Column = int(at.Line), int(at.Column)
	e.Field = r.field()
	return e
}

// position returns the position of the last token.
func (r *jsonReader) position() fault.Position {
	if r.start < r.seenTo {
		r.seenTo, r.seenLine, r.lineStart = 0, 1, 0
	}
	since := r.data[r.seenTo:r.start]
	r.seenLine += bytes.Count(since, []byte{'\n'})
	if last := bytes.LastIndexByte(since, '\n'); last >= 0 {
		r.lineStart = r.seenTo + last + 1
	}
	r.seenTo = r.start
	column := r.start - r.lineStart + 1
	return fault.Position{Line: int32(r.seenLine), Column: int32(column)} //nolint:gosec // at most MaxFileBytes
}

func (r *jsonReader) field() string {
	path := ""
	for _, p := range r.path {
		if p.isIndex {
			path += fault.Index(p.index)
		} else {
			path = fault.Join(path, fault.KeyElement(p.key))
		}
	}
	return path
}

// locate adds the position of the last token to an error.
func (r *jsonReader) locate(err error) error {
	var e *dag.Error
	if errors.As(err, &e) && e.Line == 0 {
		p := r.position()
		e.Line, e.Column, e.Field = int(p.Line), int(p.Column), r.field()
	}
	return err
}

func (r *jsonReader) fault(reason, hint string) error { return r.locate(fault.New(reason, hint)) }

// open reads the beginning of an object or array; it returns false for null.
func (r *jsonReader) open(delim json.Delim, what string) (bool, error) {
	t, err := r.token()
	if err != nil || t == nil {
		return false, err
	}
	if t != delim {
		return false, r.fault("must be "+what+", not "+describeToken(t), "")
	}
	return true, nil
}

// object reads an object with known members, or null.
func (r *jsonReader) object(known members) error {
	if ok, err := r.open('{', "an object"); !ok {
		return err
	}
	seen := make(map[string]bool, len(known))
	var all fault.Faults
	for r.dec.More() {
		t, err := r.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		r.path = append(r.path, pathElement{key: key})
		read, ok := known[key]
		switch {
		case !ok:
			err = r.skip()
		case seen[key]:
			twice := r.fault("is given twice", "remove one")
			if err = r.skip(); err == nil {
				err = twice
			}
		default:
			seen[key] = true
			err = r.whole(read)
		}
		if !all.Add(err) || r.broken {
			return all.Err()
		}
		r.path = r.path[:len(r.path)-1]
	}
	if _, err := r.token(); err != nil {
		all.Add(err)
	}
	return all.Err()
}

// whole reads a value. If the value has a fault, it skips the rest of it, so that reading can continue after it.
func (r *jsonReader) whole(read func() error) error {
	depth, path := r.depth, len(r.path)
	err := r.locate(read())
	r.path = r.path[:min(path, len(r.path))]
	for err != nil && !r.broken && r.depth > depth {
		if _, syntax := r.token(); syntax != nil {
			break
		}
	}
	return err
}

// array reads an array, or null, and calls each for every element.
func (r *jsonReader) array(each func(i int) error) error {
	if ok, err := r.open('[', "an array"); !ok {
		return err
	}
	r.path = append(r.path, pathElement{isIndex: true})
	var all fault.Faults
	for i := 0; r.dec.More(); i++ {
		r.path[len(r.path)-1].index = i
		if !all.Add(r.whole(func() error { return each(i) })) || r.broken {
			return all.Err()
		}
	}
	r.path = r.path[:len(r.path)-1]
	if _, err := r.token(); err != nil {
		all.Add(err)
	}
	return all.Err()
}

// skip skips a value.
func (r *jsonReader) skip() error {
	for outer := r.depth; ; {
		if _, err := r.token(); err != nil || r.depth == outer {
			return err
		}
	}
}

// text reads a string; null becomes "".
func (r *jsonReader) text() (string, error) {
	t, err := r.token()
	if err != nil || t == nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", r.fault("must be a string, not "+describeToken(t), "")
	}
	return s, r.locate(fault.CheckString(s))
}

// number reads a number that is not negative; null becomes 0.
func (r *jsonReader) number() (float64, error) {
	t, err := r.token()
	if err != nil || t == nil {
		return 0, err
	}
	n, ok := t.(json.Number)
	if !ok {
		return 0, r.fault("must be a number, not "+describeToken(t), "")
	}
	v, err := n.Float64()
	if err != nil {
		return 0, r.fault(fault.Quote(n.String())+" is too large a number", "")
	}
	if v < 0 {
		return 0, r.fault("cannot be negative", "")
	}
	return v, nil
}

// end returns an error if more data follows the value.
func (r *jsonReader) end() error {
	r.path = nil
	_, err := r.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	r.start = int(r.dec.InputOffset()) - 1
	return r.fault("more data follows the end of the object", "a file has one workflow")
}

func describeToken(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	}
	return "null"
}
