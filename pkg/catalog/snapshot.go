package catalog

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// A snapshot is a magic string followed by one zstd frame with a checksum. The frame has the offers in their binary
// form (package table). If the account has reserved capacity, the magic is the second one and the frame has that
// capacity before the offers, in the form that kinds.go describes.
const (
	snapshotMagic = "TWCATL1\n"
	reservedMagic = "TWCATL2\n"
)

// WriteSnapshot writes the catalogue in the form that [ReadSnapshot] reads. Equal catalogues give equal bytes.
func (c *Catalog) WriteSnapshot(w io.Writer) error {
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	magic, body := snapshotMagic, table.Encode(c.cols)
	if len(c.reserved)+len(c.unknown) > 0 {
		before, err := encodeReserved(c.reserved, c.unknown)
		if err != nil {
			return fmt.Errorf("writing catalogue snapshot: %w", err)
		}
		magic, body = reservedMagic, append(before, body...)
	}
	out := z.EncodeAll(body, []byte(magic))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	return z.Close()
}

// ReadSnapshot reads a catalogue that [Catalog.WriteSnapshot] wrote. It validates all data and uses bounded memory;
// its errors wrap [ErrBadSnapshot].
func ReadSnapshot(data []byte) (*Catalog, error) {
	frame, plain := bytes.CutPrefix(data, []byte(snapshotMagic))
	ok := plain
	if !plain {
		frame, ok = bytes.CutPrefix(data, []byte(reservedMagic))
	}
	if !ok {
		return nil, fmt.Errorf("%w: unknown header", table.ErrBadSnapshot)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(table.MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", table.ErrBadSnapshot, err)
	}
	defer z.Close()
	raw, err := z.DecodeAll(frame, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", table.ErrBadSnapshot, err)
	}
	var reserved []Reserved
	var others []unknown
	if !plain {
		if reserved, others, raw, err = decodeReserved(raw); err != nil {
			return nil, err
		}
	}
	cols, err := table.Decode(raw)
	if err != nil {
		return nil, err
	}
	c := newCatalog(cols)
	c.reserved, c.unknown = reserved, others
	return c, nil
}
