package catalog

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// A snapshot begins with the magic; one zstd frame follows, which carries a
// checksum, of the offers in their binary form (package table).
const snapshotMagic = "TWCATL1\n"

// WriteSnapshot writes the catalogue in a form for [ReadSnapshot]. Equal
// catalogues give equal bytes.
func (c *Catalog) WriteSnapshot(w io.Writer) error {
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	out := z.EncodeAll(table.Encode(c.cols), []byte(snapshotMagic))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	return z.Close()
}

// ReadSnapshot reads what [Catalog.WriteSnapshot] wrote. It checks all that it
// reads, within bounded memory; its errors wrap [ErrBadSnapshot].
func ReadSnapshot(data []byte) (*Catalog, error) {
	frame, ok := bytes.CutPrefix(data, []byte(snapshotMagic))
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
	cols, err := table.Decode(raw)
	if err != nil {
		return nil, err
	}
	return newCatalog(cols), nil
}
