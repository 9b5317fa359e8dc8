// Package stage moves directories between a machine and object stores so that a reader sees either all of a directory
// or nothing. Files are uploaded first. A manifest comes last; it lists the files, each with its size and SHA-256. A
// directory without a manifest does not exist for readers, and files that do not match the manifest are not used.
//
// A large file is one object, with a CRC32C for each piece of it in the manifest. Many small files are stored in
// bundles, objects of a few MiB. Data that is put to a user's own location, or fetched from it, is one plain object
// per file.
//
// The package has no rights on any store. Every request is granted (see Grants) by a URL that expires, and sent with
// a plain HTTP client: small objects in parallel, large ones in parts. Temporary failures are retried, and expired
// grants are renewed.
//
// Names are never trusted. Every path from a manifest, a bucket listing or an assignment must stay inside its
// directory. All paths are opened through os.Root, which enforces this whatever links exist.
//
// The package does not use tasks: package agent decides which files are staged where, and when.
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

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Errors of this package, wrapped with the file they are about.
var (
	// ErrIncomplete means that there is no manifest.
	ErrIncomplete = errors.New("no manifest")
	// ErrCorrupt means that a manifest is invalid, or that a file does not match its manifest or its store's checksum.
	ErrCorrupt = errors.New("corrupt")
	// ErrLeaves means that a path or a link leaves its directory.
	ErrLeaves = errors.New("leaves its directory")
	// ErrName means that a name is not UTF-8. Manifests and stores cannot represent it.
	ErrName = errors.New("is not UTF-8")
	// ErrChanging means that a directory or file changed while it was copied.
	ErrChanging = errors.New("keeps changing")
	// ErrNotFound means that an input does not exist.
	ErrNotFound = errors.New("not found")
	// ErrRefused means that the granter refused for good.
	ErrRefused = errors.New("refused")
	// ErrTooMany means that there are more files than MaxFiles.
	ErrTooMany = errors.New("too many files")
)

// Limits of a directory.
const (
	MaxFiles         = 1 << 20
	maxManifestBytes = 256 << 20
	maxOffset        = 1 << 30 // bytes, in a bundle
)

// Names of objects below a prefix: the manifest; files by their path, or by the path's SHA-256 if no object can have
// the path as its name; and bundles of small files by their number.
const (
	manifestName  = "manifest.json"
	filesPrefix   = "files/"
	sumsPrefix    = "sums/"
	bundlesPrefix = "bundles/"
)

// fileURI returns the URI of the file at a path below a prefix. Some file names are invalid as object names: with a
// backslash or a line break, or too long. Such an object is named by a hash; the manifest contains the real name.
func fileURI(prefix, path string) (string, error) {
	uri, err := grant.Below(prefix, filesPrefix+path)
	if err == nil {
		return uri, nil
	}
	sum := sha256.Sum256([]byte(path))
	return grant.Below(prefix, sumsPrefix+hex.EncodeToString(sum[:]))
}

// Versions of the format. A reader refuses newer ones. A manifest gets the oldest version that has the features it
// needs.
const (
	firstVersion   = 1
	bundlesVersion = 2 // adds bundles, and pieces with a SHA-256 each
	newestVersion  = 3 // adds pieces without SHA-256
)

// version returns the first version that can represent a file.
func (f *File) version() int {
	switch {
	case f.Piece > 0 && len(f.Pieces) == 0:
		return newestVersion
	case f.Piece > 0 || f.Bundle > 0:
		return bundlesVersion
	}
	return firstVersion
}

// Manifest lists the content below a prefix.
type Manifest struct {
	Version int    `json:"version"`
	Attempt string `json:"attempt,omitempty"` // the attempt that wrote it
	Rank    int    `json:"rank"`
	Nodes   int    `json:"nodes"` // number of ranks, each with its own manifest
	Files   []File `json:"files"`
}

// File is a regular file, a symbolic link or an empty directory.
type File struct {
	Path   string      `json:"path"` // slash-separated, relative
	Size   int64       `json:"size,omitempty"`
	SHA256 string      `json:"sha256,omitempty"` // in hexadecimal; empty for a file in pieces
	Mode   fs.FileMode `json:"mode,omitempty"`   // permissions only
	Link   string      `json:"link,omitempty"`   // target of a symbolic link
	Dir    bool        `json:"dir,omitempty"`

	// Sums are the CRC32Cs of each Piece bytes of a large file, so that each piece can be checked when it arrives and
	// read again alone. The store has also verified each piece's MD5. Manifests of version 2 contain the SHA-256 of
	// each piece in Pieces, which takes several times the processor time of the rest of an upload.
	Piece  int64    `json:"piece,omitempty"`
	Pieces []string `json:"pieces,omitempty"`
	Sums   []uint32 `json:"sums,omitempty"`
	// Bundle is the number, from 1, of the bundle that contains a small file at byte Offset. 0 means that the file is
	// a separate object.
	Bundle int   `json:"bundle,omitempty"`
	Offset int64 `json:"offset,omitempty"`
}

// regular reports whether f is a regular file.
func (f *File) regular() bool { return f.Link == "" && !f.Dir }

// only returns a manifest with only the files at or below the given paths, and the targets of links among them.
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

// Bytes returns the total size of all files.
func (m *Manifest) Bytes() int64 {
	var n int64
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// ReadManifests reads and checks the manifests below the given prefixes (URIs). It returns ErrIncomplete or ErrCorrupt.
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
		if err := t.retry(ctx, isTemporary, func() error { return t.sign(ctx, gets) }); err != nil {
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
		return nil, fmt.Errorf("%w: the manifest has version %d, this program reads up to %d", ErrCorrupt, m.Version,
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
			return nil, fmt.Errorf("%w: %q is listed twice", ErrCorrupt, f.Path)
		}
		seen[f.Path] = true
	}
	if p := m.throughLink(); p != "" {
		return nil, fmt.Errorf("path %q %w: it leads through a link", p, ErrLeaves)
	}
	return m, nil
}

// check returns an error if the fields of f are invalid.
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

// isDigest reports whether text is a hexadecimal SHA-256.
func isDigest(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// inside returns an error unless p is a relative path in canonical form that stays below its start.
func inside(p string) error {
	if !pack.Inside(p) {
		return fmt.Errorf("path %q %w", p, ErrLeaves)
	}
	return nil
}

// linkInside reports whether a link at p to target points inside the directory that p is relative to.
func linkInside(p, target string) bool { return pack.LinkInside(p, filepath.ToSlash(target)) }

// throughLink returns a path of m that leads through one of its links, which could redirect it anywhere; "" if there
// is none.
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
