// Package deflate compresses data that is billed by the unit of its size.
package deflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
)

// ErrTooLarge means that compressed data claims to be larger than allowed.
var ErrTooLarge = errors.New("deflate: the data is too large")

// Saves returns data as a raw DEFLATE stream if that needs fewer units of the given size in bytes. Otherwise ok is
// false.
func Saves(raw []byte, unit int) (small []byte, ok bool) {
	if len(raw) <= unit {
		return nil, false
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err == nil && b.Len()/unit < len(raw)/unit
}

// Inflate returns the data of a raw DEFLATE stream. It fails with ErrTooLarge if it has more than most bytes.
func Inflate(small []byte, most int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(small)), int64(most)+1))
	if err == nil && len(raw) > most {
		err = ErrTooLarge
	}
	return raw, err
}
