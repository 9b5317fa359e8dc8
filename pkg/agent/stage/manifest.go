// Package stage moves directories between a machine and object stores so that a reader sees all of a directory or
// nothing: files first, each with its size and SHA-256, and last a manifest that lists them. What has no manifest does
// not exist; what does not agree with it is not used.
//
// A large file is an object with a CRC32C for each piece of it; where there are many small ones they lie in bundles,
// objects of some MiB. What is put to a user's own place, or fetched from it, is one plain object a file.
//
// It has no rights on any store. Every request is granted (see Grants), by a URL that expires, and sent with a plain
// HTTP client: small objects side by side, large ones in parts. What fails for a moment is tried again, and a grant
// that has ended is renewed.
//
// Names are never trusted. Every path that comes from a manifest, a bucket listing or an
// assignment must stay inside the directory it belongs to, and all of them are opened through os.Root,
// which holds them to that whatever links lie in the way.
//
// It knows nothing of tasks: what is staged where, and when, is package agent's matter.
package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// Errors of this package, wrapped with the file they are about.
var (
	// ErrIncomplete: there is no manifest.
	ErrIncomplete = errors.New("no manifest")
	// ErrCorrupt: a manifest that is none, or a file that is not as its manifest says.
	ErrCorrupt = errors.New("corrupt")
	// ErrLeaves: a path or a link that leaves its directory.
	ErrLeaves = errors.New("leaves its directory")
	// ErrName: a name that is not UTF-8, which neither a manifest nor a store can have.
	ErrName = errors.New("is not UTF-8")
	// ErrChanging: a directory that did not keep still while it was copied.
	ErrChanging = errors.New("keeps changing")
	// ErrNotFound: nothing lies where an input should.
	ErrNotFound = errors.New("not found")
	// ErrRefused: who grants has said no for good.
	ErrRefused = errors.New("refused")
	// ErrTooMany: more files than MaxFiles.
	ErrTooMany = errors.New("too many files")
)

// Limits of a directory.
const (
	MaxFiles         = 1 << 20
	maxManifestBytes = 256 << 20
	maxOffset        = 1 << 30 // bytes, in a bundle
)

// names of what lies below a prefix: the manifest, the files by their path, or by its sum where no object can have it,
// and bundles of small files by their number.
const (
	manifestName  = "manifest.json"
	filesPrefix   = "files/"
	sumsPrefix    = "sums/"
	bundlesPrefix = "bundles/"
)

// fileURI is where the file at a path lies below a prefix. Programs make files whose names no object can have, with a
// backslash or a line break, or of a thousand letters; the manifest has their names.
func fileURI(prefix, path string) (string, error) {
	uri, err := grant.Below(prefix, filesPrefix+path)
	if err == nil {
		return uri, nil
	}
	sum := sha256.Sum256([]byte(path))
	return grant.Below(prefix, sumsPrefix+hex.EncodeToString(sum[:]))
}

// Versions of the format; a reader refuses a newer one. A manifest is of the oldest that has what it needs.
const (
	firstVersion   = 1
	bundlesVersion = 2 // bundles, and pieces with a SHA-256 each
	newestVersion  = 3 // pieces without
)

// version is the first that can tell of a file.
func (f *File) version() int {
	switch {
	case f.Piece > 0 && len(f.Pieces) == 0:
		return newestVersion
	case f.Piece > 0 || f.Bundle > 0:
		return bundlesVersion
	}
	return firstVersion
}

// Manifest lists what lies below a prefix.
type Manifest struct {
	Version int    `json:"version"`
	Attempt string `json:"attempt,omitempty"` // who wrote it
	Rank    int    `json:"rank"`
	Nodes   int    `json:"nodes"` // how many ranks there are, each with a manifest of its own
	Files   []File `json:"files"`
}

// File is a regular file, a symbolic link or an empty directory.
type File struct {
	Path   string      `json:"path"` // slash-separated, relative
	Size   int64       `json:"size,omitempty"`
	SHA256 string      `json:"sha256,omitempty"` // in hexadecimal; of a file in pieces there is none
	Mode   fs.FileMode `json:"mode,omitempty"`   // permissions only
	Link   string      `json:"link,omitempty"`   // where a symbolic link points to
	Dir    bool        `json:"dir,omitempty"`

	// Sums are the CRC32C of each Piece bytes of a large file, so that each is checked where it arrives and is brought
	// again alone. The store has compared each with its MD5 as well. Manifests of version 2 have the SHA-256 of each
	// in Pieces, which takes several times the processor time of all the rest of an upload.
	Piece  int64    `json:"piece,omitempty"`
	Pieces []string `json:"pieces,omitempty"`
	Sums   []uint32 `json:"sums,omitempty"`
	// Bundle is the number, from 1, of the object in which a small file lies, at byte Offset; 0 is an object of its
	// own.
	Bundle int   `json:"bundle,omitempty"`
	Offset int64 `json:"offset,omitempty"`
}

// regular says whether f has content.
func (f *File) regular() bool { return f.Link == "" && !f.Dir }

// only is a manifest of those files that lie at some paths or below them, and of what links among them lead to: what is
// left of a directory of which not all is wanted.
func (m *Manifest) only(paths []string) *Manifest {
	var wanted []string
	for _, p := range paths {
		wanted = append(wanted, path.Clean(p))
	}
	in := func(p string) bool {
		return slices.ContainsFunc(wanted, func(w string) bool {
			return w == "." || p == w || strings.HasPrefix(p, w+"/")
		})
	}
	for more := true; more; {
		more = false
		for i := range m.Files {
			f := &m.Files[i]
			if to := path.Join(path.Dir(f.Path), f.Link); f.Link != "" && in(f.Path) && !in(to) {
				wanted, more = append(wanted, to), true
			}
		}
	}
	some := *m
	some.Files = nil
	for i := range m.Files {
		if in(m.Files[i].Path) {
			some.Files = append(some.Files, m.Files[i])
		}
	}
	return &some
}

// Bytes is the size of all files.
func (m *Manifest) Bytes() int64 {
	var n int64
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// ReadManifests reads the manifests below some prefixes, URIs, and checks them. It fails with ErrIncomplete or
// ErrCorrupt.
func (t Transfer) ReadManifests(ctx context.Context, prefixes ...string) ([]*Manifest, error) {
	manifests := make([]*Manifest, len(prefixes))
	for first := 0; first < len(prefixes); first += t.batch() {
		some := prefixes[first:min(first+t.batch(), len(prefixes))]
		gets := make([]*granted, len(some))
		for i, prefix := range some {
			uri, err := grant.Below(prefix, manifestName)
			if err != nil {
				return nil, err
			}
			gets[i] = &granted{want: grant.Want{Op: grant.Get, URI: uri}}
		}
		if err := t.retry(ctx, passing, func() error { return t.sign(ctx, gets) }); err != nil {
			return nil, err
		}
		err := t.each(ctx, len(some), func(ctx context.Context, i int) (err error) {
			manifests[first+i], err = t.readManifest(ctx, gets[i])
			if missing(err) {
				err = fmt.Errorf("%s: %w", some[i], ErrIncomplete)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return manifests, nil
}

func (t Transfer) readManifest(ctx context.Context, g *granted) (m *Manifest, err error) {
	var body []byte
	err = t.do(ctx, exchange{granted: g, take: func(r *http.Response) (err error) {
		body, err = io.ReadAll(io.LimitReader(r.Body, maxManifestBytes+1))
		return err
	}})
	if err != nil {
		return nil, err
	}
	if len(body) > maxManifestBytes {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", g.want.URI, ErrCorrupt, maxManifestBytes)
	}
	if m, err = parseManifest(body); err != nil {
		return nil, fmt.Errorf("%s: %w", g.want.URI, err)
	}
	return m, nil
}

func parseManifest(body []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if m.Version < firstVersion || m.Version > newestVersion {
		return nil, fmt.Errorf("%w: version %d of the manifest, this program reads %d", ErrCorrupt, m.Version,
			newestVersion)
	}
	if len(m.Files) > MaxFiles {
		return nil, fmt.Errorf("%w: %d", ErrTooMany, len(m.Files))
	}
	seen := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if err := f.check(); err != nil {
			return nil, err
		}
		if seen[f.Path] {
			return nil, fmt.Errorf("%w: %q is there twice", ErrCorrupt, f.Path)
		}
		seen[f.Path] = true
	}
	if p := m.throughLink(); p != "" {
		return nil, fmt.Errorf("path %q %w: it leads through a link", p, ErrLeaves)
	}
	return m, nil
}

// check says whether f can be what it claims to be.
func (f *File) check() error {
	if err := inside(f.Path); err != nil {
		return err
	}
	if f.Link != "" && !linkInside(f.Path, f.Link) {
		return fmt.Errorf("link %q to %q %w", f.Path, f.Link, ErrLeaves)
	}
	if !f.regular() {
		return nil
	}
	if f.Size < 0 || f.Bundle < 0 || f.Offset < 0 || f.Offset > maxOffset {
		return fmt.Errorf("%w: %q has size %d, at %d of bundle %d", ErrCorrupt, f.Path, f.Size, f.Offset, f.Bundle)
	}
	if f.Piece != 0 || len(f.Pieces) > 0 || len(f.Sums) > 0 {
		return f.checkPieces()
	}
	if !isDigest(f.SHA256) || f.Bundle > 0 && f.Size > bundleSize {
		return fmt.Errorf("%w: %q has size %d and SHA-256 %q", ErrCorrupt, f.Path, f.Size, f.SHA256)
	}
	return nil
}

func (f *File) checkPieces() error {
	if f.Size < 1 || f.Piece < grant.MinPart || f.Bundle > 0 || int64(len(f.Sums)) != (f.Size+f.Piece-1)/f.Piece ||
		len(f.Pieces) > 0 && len(f.Pieces) != len(f.Sums) {
		return fmt.Errorf("%w: %q has size %d and %d pieces of %d bytes", ErrCorrupt, f.Path, f.Size, len(f.Sums),
			f.Piece)
	}
	for _, sum := range f.Pieces {
		if !isDigest(sum) {
			return fmt.Errorf("%w: %q has a piece with the SHA-256 %q", ErrCorrupt, f.Path, sum)
		}
	}
	return nil
}

// isDigest says whether text can be a SHA-256.
func isDigest(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// inside says whether p is a relative path that stays below where it starts, spelled the only way.
func inside(p string) error {
	if !pack.Inside(p) {
		return fmt.Errorf("path %q %w", p, ErrLeaves)
	}
	return nil
}

// linkInside says whether a link at p to target points below the directory that p is relative to.
func linkInside(p, target string) bool { return pack.LinkInside(p, filepath.ToSlash(target)) }

// throughLink names a path of m that leads through one of its links, which could take it anywhere; "" when there is
// none.
func (m *Manifest) throughLink() string {
	links := map[string]bool{}
	for i := range m.Files {
		if m.Files[i].Link != "" {
			links[m.Files[i].Path] = true
		}
	}
	if len(links) == 0 {
		return ""
	}
	for i := range m.Files {
		for dir := path.Dir(m.Files[i].Path); dir != "."; dir = path.Dir(dir) {
			if links[dir] {
				return m.Files[i].Path
			}
		}
	}
	return ""
}
