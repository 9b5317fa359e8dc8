package tianchi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// longestRow is the maximum length of a row in bytes. Two curves of 98 numbers take some kilobytes.
const longestRow = 1 << 20

// rows reads one file row by row.
type rows struct {
	file   string
	fields []string // their names, for errors
	scan   *bufio.Scanner
	row    int
	cells  [][]byte
}

// newRows reads rows with these fields. It decompresses the input if its first bytes are those of gzip.
func newRows(file string, r io.Reader, fields ...string) (*rows, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	var in io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, &Error{File: file, Reason: err.Error()}
		}
		in = z
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 1<<16), longestRow)
	return &rows{file: file, fields: fields, scan: scan}, nil
}

// next reads the next row and splits it.
func (r *rows) next() (bool, error) {
	if !r.scan.Scan() {
		err := r.scan.Err()
		if err == nil {
			return false, nil
		}
		r.row++
		if errors.Is(err, bufio.ErrTooLong) {
			return false, r.bad(-1, "the row is longer than %d bytes", longestRow)
		}
		return false, r.bad(-1, "%v", err)
	}
	r.row++
	line := bytes.TrimSuffix(r.scan.Bytes(), []byte{'\r'})
	r.cells = r.cells[:0]
	for {
		cell, rest, more := bytes.Cut(line, []byte{','})
		r.cells = append(r.cells, cell)
		if !more {
			break
		}
		line = rest
	}
	if len(r.cells) != len(r.fields) {
		return false, r.bad(-1, "%d fields, not %d (%s)", len(r.cells), len(r.fields), strings.Join(r.fields, ", "))
	}
	return true, nil
}

// bad returns an error at a field of the row; field -1 means the whole row.
func (r *rows) bad(field int, format string, args ...any) error {
	e := &Error{File: r.file, Row: r.row, Reason: fmt.Sprintf(format, args...)}
	if field >= 0 {
		e.Field = r.fields[field]
	}
	return e
}

// name returns a cell that must be a name.
func (r *rows) name(field int) (string, error) {
	s := string(r.cells[field])
	if strings.TrimSpace(s) != s || s == "" {
		return "", r.bad(field, "%q is not a name", s)
	}
	return s, nil
}

// newName returns a cell that must be a new name, and gives the name the next number.
func (r *rows) newName(field int, known map[string]int32) (string, error) {
	s, err := r.name(field)
	if err != nil {
		return "", err
	}
	if _, twice := known[s]; twice {
		return "", r.bad(field, "%s is listed twice", s)
	}
	known[s] = int32(len(known)) //nolint:gosec // rows in memory
	return s, nil
}

// known returns the number of a name that another file defines.
func (r *rows) known(field int, names map[string]int32, where string) (int32, error) {
	i, ok := names[string(r.cells[field])]
	if !ok {
		return 0, r.bad(field, "%q is not in %s", r.cells[field], where)
	}
	return i, nil
}

// whole returns a cell that must be a whole number from 0 to most.
func (r *rows) whole(field, most int) (int, error) {
	n, err := strconv.Atoi(string(r.cells[field]))
	if err != nil || n < 0 || n > most {
		return 0, r.bad(field, "%q is not a whole number from 0 to %d", r.cells[field], most)
	}
	return n, nil
}

// amount returns a cell that must be a quantity, in parts of placement.Unit.
func (r *rows) amount(field int) (int64, error) {
	x, ok := decimal(r.cells[field])
	if !ok {
		return 0, r.bad(field, "%q is not a number from 0 to %d", r.cells[field], placement.MaxValue)
	}
	return x, nil
}

// curve appends the points of a cell that must be a curve.
func (r *rows) curve(field int, to []int64) ([]int64, error) {
	rest := r.cells[field]
	n := 0
	for more := true; more; n++ {
		var cell []byte
		cell, rest, more = bytes.Cut(rest, []byte{'|'})
		x, ok := decimal(cell)
		if !ok {
			return nil, r.bad(field, "point %d: %q is not a number from 0 to %d", n+1, cell, placement.MaxValue)
		}
		to = append(to, x)
	}
	if n != Points {
		return nil, r.bad(field, "%d points, not %d", n, Points)
	}
	return to, nil
}

// decimal parses a number from 0 to placement.MaxValue in parts of placement.Unit. It is exact to nine digits after
// the point; more digits are rounded.
func decimal(s []byte) (int64, bool) {
	var x int64
	digits, scale := 0, int64(0)
	for _, c := range s {
		switch {
		case c == '.' && scale == 0:
			scale = placement.Unit
		case c >= '0' && c <= '9' && digits < 16 && scale != 1:
			x = x*10 + int64(c-'0')
			digits++
			scale /= 10
		default:
			return float(s)
		}
	}
	if scale == 0 {
		scale = placement.Unit
	}
	if digits == 0 || x > placement.MaxValue*placement.Unit/scale {
		return 0, false
	}
	return x * scale, true
}

// float parses numbers with an exponent or very many digits.
func float(s []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || !(f >= 0 && f <= placement.MaxValue) || bytes.ContainsAny(s, "xX_") {
		return 0, false
	}
	return int64(math.Round(f * placement.Unit)), true
}
