package pack

import "math/bits"

// Sizes of pieces, in bytes. The last piece of a pack may be smaller than minPiece.
const (
	minPiece = 512 << 10
	maxPiece = 8 << 20
	// From minPiece on, a piece ends at each byte with the probability 1 in 2^cutBits.
	cutBits = 20
)

// cut returns the length of the first piece of data: it ends where the gear hash of the last 64 bytes begins with
// cutBits zeros (Xia et al., "FastCDC", USENIX ATC 2016, section 3.1). So a cut only depends on the bytes just before
// it, and a change does not affect the pieces after it. data has maxPiece bytes, or is the rest of the stream.
func cut(data []byte) int {
	if len(data) <= minPiece {
		return len(data)
	}
	data = data[:min(len(data), maxPiece)]
	var hash uint64
	for _, b := range data[minPiece-64 : minPiece] {
		hash = hash<<1 + gear[b]
	}
	for i, b := range data[minPiece:] {
		if hash = hash<<1 + gear[b]; hash>>(64-cutBits) == 0 {
			return minPiece + i + 1
		}
	}
	return len(data)
}

// gear maps each byte to a different number. It must never change, because then pieces would be cut elsewhere.
var gear = func() (table [256]uint64) {
	// SplitMix64 (Steele et al., OOPSLA 2014), from 0.
	state := uint64(0)
	for i := range table {
		state += 0x9e3779b97f4a7c15
		z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = bits.Reverse64(z ^ z>>31)
	}
	return table
}()
