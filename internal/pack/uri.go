package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Scheme is the scheme of a pack's URI.
const Scheme = "pack"

// Prefix is the prefix of packs in a store. Each object's name is its digest.
const Prefix = "packs/"

// ErrURI means that a string is not the URI of a pack.
var ErrURI = errors.New("not the URI of a pack")

// Digest identifies content: "sha256-" and the SHA-256 of its bytes in hexadecimal.
type Digest string

const algorithm = "sha256-"

// DigestOf returns the digest of content.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(algorithm + hex.EncodeToString(sum[:]))
}

// Sum returns the SHA-256 in d, or nil if d is not a digest.
func (d Digest) Sum() []byte {
	text, ok := strings.CutPrefix(string(d), algorithm)
	if !ok || len(text) != 2*sha256.Size || strings.ToLower(text) != text {
		return nil
	}
	sum, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return sum
}

// URI refers to a pack: pack://DIGEST/NAME.
type URI struct {
	Digest Digest
	Name   string // of the packed folder or file; also used as the name when it is unpacked
}

// String returns the URI as in jobs.
func (u URI) String() string { return Scheme + "://" + string(u.Digest) + "/" + url.PathEscape(u.Name) }

// IsURI reports whether s has the scheme of a pack's URI.
func IsURI(s string) bool { return strings.HasPrefix(s, Scheme+"://") }

// ParseURI parses a pack's URI. It returns ErrURI.
func ParseURI(s string) (URI, error) {
	digest, name, ok := strings.Cut(strings.TrimPrefix(s, Scheme+"://"), "/")
	u := URI{Digest: Digest(digest)}
	var err error
	if u.Name, err = url.PathUnescape(name); err != nil || !ok || !IsURI(s) || u.Digest.Sum() == nil ||
		inside(u.Name) != nil || strings.Contains(u.Name, "/") {
		return URI{}, fmt.Errorf("%w: %q; want pack://sha256-DIGEST/NAME", ErrURI, s)
	}
	return u, nil
}
