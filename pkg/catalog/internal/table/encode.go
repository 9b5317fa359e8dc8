package table

import (
	"encoding/binary"
	"math"
)

// MaxBytes limits the binary form. maxOffers offers fit into it.
const MaxBytes = 32 << 20

const (
	flagAttached = 1 << iota
	flagARM
	knownFlags = flagAttached | flagARM
)

// Encode returns the columns in a form that is small and fast to read:
//
//	names      length, then the bytes of all names in the order they are used
//	places     count; for each the lengths of cloud, region and zone
//	machines   count; for each the lengths of cloud, type and accelerator,
//	           flags, vCPU, GiB, accelerators (float64 each), EMR surcharge
//	prices     count; ascending differences in nano-USD, each at least 1
//	offers     count; for each place its number of offers
//	           for each offer the machine, as difference to the one before in the place
//	           for each offer the on-demand price's position, 3 bytes
//	           for each offer the spot price's position plus 1, 3 bytes, 0 for none
//	           for each offer the interruption band, 1 byte
//
// Integers without a size are varints; those with a size are little-endian. Offers are in the order of their IDs, and
// prices are a sorted table, so that the reader builds all indexes without comparisons.
func Encode(c *Columns) []byte {
	var names, b []byte
	name := func(s string) {
		names = append(names, s...)
		b = binary.AppendUvarint(b, uint64(len(s)))
	}
	b = binary.AppendUvarint(b, uint64(len(c.Places)))
	for i := range c.Places {
		name(c.Places[i].Cloud)
		name(c.Places[i].Region)
		name(c.Places[i].Zone)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Machines)))
	for i := range c.Machines {
		m := &c.Machines[i]
		name(m.Cloud)
		name(m.InstanceType)
		name(m.Accelerator)
		var flags byte
		if m.Attached {
			flags |= flagAttached
		}
		if m.Arm {
			flags |= flagARM
		}
		b = append(b, flags)
		for _, x := range [...]float64{m.Vcpu, m.MemoryGiB, m.Count} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		b = binary.AppendUvarint(b, uint64(m.Emr)) //nolint:gosec // never negative
	}
	b = binary.AppendUvarint(b, uint64(len(c.Prices)))
	var last NanoUSD
	for _, p := range c.Prices {
		b = binary.AppendUvarint(b, uint64(p-last)) //nolint:gosec // ascending
		last = p
	}
	b = encodeOffers(b, c)
	return append(append(binary.AppendUvarint(nil, uint64(len(names))), names...), b...)
}

func encodeOffers(b []byte, c *Columns) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.Machine)))
	starts := StartsOf(c.Place, len(c.Places))
	for p := range c.Places {
		b = binary.AppendUvarint(b, uint64(starts[p+1]-starts[p]))
	}
	for p := range c.Places {
		last := uint16(0)
		for _, m := range c.Machine[starts[p]:starts[p+1]] {
			b = binary.AppendUvarint(b, uint64(m-last))
			last = m
		}
	}
	for _, column := range [][]uint32{c.OnDemand, c.Spot} {
		for _, at := range column {
			b = append(b, byte(at), byte(at>>8), byte(at>>16)) //nolint:gosec // 24 bits hold maxPrices
		}
	}
	return append(b, c.Band...)
}
