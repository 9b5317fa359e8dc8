package catalog

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// A snapshot begins with the magic; one zstd frame follows, which carries a
// checksum, of the offers in their binary form (package table). Where an account has capacity already, it begins with
// the other magic, and that capacity stands before the offers (kinds.go says in which form).
const (
	snapshotMagic = "TWCATL1\n"
	reservedMagic = "TWCATL2\n"
)

// WriteSnapshot writes the catalogue in a form for [ReadSnapshot]. Equal
// catalogues give equal bytes.
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

// ReadSnapshot reads what [Catalog.WriteSnapshot] wrote. It checks all that it
// reads, within bounded memory; its errors wrap [ErrBadSnapshot].
func ReadSnapshot(data []byte) (*Catalog, error) {
	frame, plain := bytes.CutPrefix(data, []byte(snapshotMagic))
	ok := plain
	if !plain {
		frame, ok = bytes.CutPrefix(data, []byte(reservedMagic))
	}
	if !ok {
		return nil, fmt.Errorf("%w: does not begin like one", table.ErrBadSnapshot)
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
