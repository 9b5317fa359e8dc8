package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Scheme is that of a pack's URI.
const Scheme = "pack"

// Prefix is where packs lie in a store: each object is called by its digest.
const Prefix = "packs/"

// ErrURI says that something is not the URI of a pack.
var ErrURI = errors.New("not the URI of a pack")

// Digest names content: "sha256-" and the SHA-256 of its bytes in hexadecimal.
type Digest string

const algorithm = "sha256-"

// DigestOf is the digest of content.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(algorithm + hex.EncodeToString(sum[:]))
}

// Sum is the SHA-256 that d has, or nil if it is no digest.
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
	Name   string // of the folder or file that was packed, for people and for where it is put
}

// String is the URI as jobs have it.
func (u URI) String() string { return Scheme + "://" + string(u.Digest) + "/" + url.PathEscape(u.Name) }

// IsURI says whether s is meant to refer to a pack.
func IsURI(s string) bool { return strings.HasPrefix(s, Scheme+"://") }

// ParseURI reads a pack's URI. It fails with ErrURI.
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
