package stage

import (
	"crypto/md5" //nolint:gosec // checksums of stores, not secrets
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"net/http"
	"strings"
)

// A manifest contains digests of every byte. Other objects can only be checked if the store knows a checksum: Google
// has a CRC32C, also for objects uploaded in parts; Azure the MD5 of objects uploaded whole; S3 the same as the ETag.
// Without a checksum only the size is checked, and the ETag shows that all parts belong to the same object.

// check computes a checksum of arriving data.
type check interface {
	Write(p []byte) (int, error)
	text() string // hexadecimal
}

type digest struct{ hash.Hash }

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)) }

type crc32c struct{ hash.Hash32 }

func (c crc32c) text() string { return hex.EncodeToString(c.Sum(nil)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newCRC() check { return crc32c{crc32.New(castagnoli)} }

// noCheck is a check that checks nothing.
type noCheck struct{}

func (noCheck) Write(p []byte) (int, error) { return len(p), nil }
func (noCheck) text() string                { return "" }

// checkOf returns a SHA-256 check, or nothing if there is no sum to compare with.
func checkOf(sum string) check {
	if sum == "" {
		return noCheck{}
	}
	return digest{sha256.New()}
}

// crcOf returns the CRC32C of an object from Google's header, in hexadecimal; "" if there is none.
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

// storeChecksum returns the store's checksum of an object that is read whole, and the check for it; nothing if there is
// none.
func storeChecksum(h http.Header) (sum string, by check) {
	if sum := crcOf(h); sum != "" {
		return sum, newCRC()
	}
	if sum, err := base64.StdEncoding.DecodeString(h.Get("Content-MD5")); err == nil && len(sum) == md5.Size {
		return hex.EncodeToString(sum), digest{md5.New()} //nolint:gosec // see above
	}
	etag := strings.Trim(h.Get("ETag"), `"`)
	sealed := h.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") != "" ||
		strings.HasPrefix(h.Get("X-Amz-Server-Side-Encryption"), "aws:") // with such keys it is not an MD5
	if raw, err := hex.DecodeString(etag); err == nil && len(raw) == md5.Size && !sealed {
		return etag, digest{md5.New()} //nolint:gosec // see above
	}
	return "", noCheck{}
}

// joinCRC returns the CRC32C of two concatenated byte strings, from their CRCs and the length of the second. The
// first CRC is shifted by length zero bytes, which is a multiplication by a power of x among polynomials modulo
// Castagnoli's.
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

// crcText returns a CRC32C in the format of check.text.
func crcText(sum uint32) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}
