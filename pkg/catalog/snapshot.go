package catalog

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// A snapshot is a catalogue in a form that is small and quick to read: the
// magic, then one zstd frame (which carries a checksum) of
//
//	names      length, then the bytes of all names in the order they are used
//	places     count; for each the lengths of cloud, region and zone
//	machines   count; for each the lengths of cloud, type and accelerator,
//	           flags, vCPU, GiB, accelerators (float64 each), EMR surcharge
//	prices     count; ascending differences in nano-USD, each at least 1
//	offers     count; for each place how many it has
//	           for each offer the machine, as difference to the one before in the place
//	           for each offer the on-demand price's position, 3 bytes
//	           for each offer the spot price's position plus 1, 3 bytes, 0 for none
//	           for each offer the interruption band, 1 byte
//
// Integers without a size are varints; sized ones are little-endian. Offers are
// in the order of their IDs, and prices are a sorted table, so that reading
// builds all indexes without comparing anything.
const snapshotMagic = "TWCATL1\n"

// maxSnapshotBytes bounds a snapshot's frame, decompressed: what maxOffers
// offers take.
const maxSnapshotBytes = 32 << 20

const (
	flagAttached = 1 << iota
	flagARM
	knownFlags = flagAttached | flagARM
)

// WriteSnapshot writes the catalogue in a form for [ReadSnapshot]. Equal
// catalogues give equal bytes.
func (c *Catalog) WriteSnapshot(w io.Writer) error {
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	out := z.EncodeAll(encode(c.columns), []byte(snapshotMagic))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing catalogue snapshot: %w", err)
	}
	return z.Close()
}

func encode(c *columns) []byte {
	var names, b []byte
	name := func(s string) {
		names = append(names, s...)
		b = binary.AppendUvarint(b, uint64(len(s)))
	}
	b = binary.AppendUvarint(b, uint64(len(c.places)))
	for i := range c.places {
		name(c.places[i].cloud)
		name(c.places[i].region)
		name(c.places[i].zone)
	}
	b = binary.AppendUvarint(b, uint64(len(c.machines)))
	for i := range c.machines {
		m := &c.machines[i]
		name(m.cloud)
		name(m.instanceType)
		name(m.accelerator)
		var flags byte
		if m.attached {
			flags |= flagAttached
		}
		if m.arch == ARM64 {
			flags |= flagARM
		}
		b = append(b, flags)
		for _, x := range [...]float64{m.vcpu, m.memoryGiB, m.count} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		b = binary.AppendUvarint(b, uint64(m.emr)) //nolint:gosec // never negative
	}
	b = binary.AppendUvarint(b, uint64(len(c.prices)))
	var last nanoUSD
	for _, p := range c.prices {
		b = binary.AppendUvarint(b, uint64(p-last)) //nolint:gosec // ascending
		last = p
	}
	b = encodeOffers(b, c)
	return append(append(binary.AppendUvarint(nil, uint64(len(names))), names...), b...)
}

func encodeOffers(b []byte, c *columns) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.machine)))
	starts := startsOf(c.place, len(c.places))
	for p := range c.places {
		b = binary.AppendUvarint(b, uint64(starts[p+1]-starts[p]))
	}
	for p := range c.places {
		last := uint16(0)
		for _, m := range c.machine[starts[p]:starts[p+1]] {
			b = binary.AppendUvarint(b, uint64(m-last))
			last = m
		}
	}
	for _, column := range [][]uint32{c.onDemand, c.spot} {
		for _, at := range column {
			b = append(b, byte(at), byte(at>>8), byte(at>>16)) //nolint:gosec // 24 bits hold maxPrices
		}
	}
	for _, band := range c.band {
		b = append(b, byte(band))
	}
	return b
}

// ReadSnapshot reads what [Catalog.WriteSnapshot] wrote. It checks all that it
// reads, within bounded memory; its errors wrap [ErrBadSnapshot].
func ReadSnapshot(data []byte) (*Catalog, error) {
	cols, err := decode(data)
	if err != nil {
		return nil, err
	}
	return newCatalog(cols), nil
}
