package stage

import (
	"crypto/md5" //nolint:gosec // what stores tell of an object, not a secret
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"net/http"
	"strings"
)

// A manifest has digests of every byte. Of other objects it is the store that says what they are, if it does: Google a
// CRC32C, also of what was uploaded in parts; Azure the MD5 of what was put whole; S3 the same as its ETag. What a
// store says nothing of is checked by its size, and by its ETag to be one object.

// check is a sum of what arrives.
type check interface {
	Write(p []byte) (int, error)
	text() string // in hexadecimal
}

type digest struct{ hash.Hash }

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)) }

type crc struct{ hash.Hash32 }

func (c crc) text() string { return hex.EncodeToString(c.Sum(nil)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newCRC() check { return crc{crc32.New(castagnoli)} }

// nothing is no check.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) text() string                { return "" }

// checkOf is a check by SHA-256, where one is known.
func checkOf(sum string) check {
	if sum == "" {
		return nothing{}
	}
	return digest{sha256.New()}
}

// crcOf is the CRC32C that Google tells of an object, in hexadecimal; "" where there is none.
func crcOf(h http.Header) string {
	for _, line := range h.Values("X-Goog-Hash") {
		for one := range strings.SplitSeq(line, ",") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(one), "crc32c="); ok {
				if sum, err := base64.StdEncoding.DecodeString(value); err == nil && len(sum) == crc32.Size {
					return hex.EncodeToString(sum)
				}
			}
		}
	}
	return ""
}

// told is what a store says of an object that comes whole, and how that is checked; nothing where it says nothing.
func told(h http.Header) (sum string, by check) {
	if sum := crcOf(h); sum != "" {
		return sum, newCRC()
	}
	if sum, err := base64.StdEncoding.DecodeString(h.Get("Content-MD5")); err == nil && len(sum) == md5.Size {
		return hex.EncodeToString(sum), digest{md5.New()} //nolint:gosec // see above
	}
	etag := strings.Trim(h.Get("ETag"), `"`)
	sealed := h.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") != "" ||
		strings.HasPrefix(h.Get("X-Amz-Server-Side-Encryption"), "aws:") // with keys of its own it is no MD5
	if raw, err := hex.DecodeString(etag); err == nil && len(raw) == md5.Size && !sealed {
		return etag, digest{md5.New()} //nolint:gosec // see above
	}
	return "", nothing{}
}

// joinCRC is the CRC32C of two stretches of bytes, from that of each and the length of the second: the first is moved
// on by as many zero bytes, a multiplication by a power of x among polynomials modulo Castagnoli's.
func joinCRC(a, b uint32, length int64) uint32 {
	power, square := uint32(1)<<31, uint32(1)<<23 // x^0, and x^8: a byte; the highest bit is the lowest power
	for ; length > 0; length >>= 1 {
		if length&1 == 1 {
			power = times(power, square)
		}
		square = times(square, square)
	}
	return times(a, power) ^ b
}

// times multiplies polynomials in reflected order modulo Castagnoli's.
func times(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		if b&1 == 1 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}

// crcText is a CRC32C as a check has it.
func crcText(sum uint32) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}
