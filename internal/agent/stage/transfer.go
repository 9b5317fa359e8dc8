package stage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the checksum that every store verifies, not a secret
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Transfer moves files. Grants is required; the other fields have useful zero values.
type Transfer struct {
	Grants Grants
	// Store is a URI below which everything is accessed with grants, even if it is a folder of this machine: the
	// store in which jobs keep their data. Other file URIs are accessed directly.
	Store string
	// Moved is called after each request, successful or not, with the bytes of its body and of its answer's body. It
	// may be nil. Several goroutines call it.
	Moved    func(uri string, sent, received int64)
	Client   *http.Client // must not request compression
	Parallel int          // concurrent requests to start with; 0 is 8
	Tries    int          // of one request; 0 is 4
	Part     int64        // bytes; larger files are moved in parts of this size; 0 is 16 MiB
	Batch    int          // grants per request; 0 is 500
	Peers    Peers        // nodes that need the same files; nil if there are none
	Shared   int64        // minimum total size of files that nodes share, in bytes; 0 is 64 MiB

	Still time.Duration // how long the read of a whole object may stall; 0 is a minute

	sharing bool // the current files are large enough to be shared
}

const (
	defaultParallel = 8
	defaultPart     = 16 << 20
	defaultBatch    = 500
	defaultTries    = 4
	defaultShared   = 64 << 20
)

func (t Transfer) parallel() int { return cmp.Or(max(t.Parallel, 0), defaultParallel) }
func (t Transfer) batch() int    { return cmp.Or(max(t.Batch, 0), defaultBatch) }
func (t Transfer) shared() int64 { return cmp.Or(max(t.Shared, 0), defaultShared) }
func (t Transfer) part() int64   { return max(cmp.Or(t.Part, defaultPart), grant.MinPart) }

// Upload uploads the files that scan finds in dir to the URI prefix, and the manifest last. m is the manifest without
// its files, which Upload fills in. If a file changes meanwhile, Upload returns ErrChanging. An empty dir means that
// there are no files.
func (t Transfer) Upload(ctx context.Context, prefix, dir string, scan Scan, m Manifest) (*Manifest, error) {
	m.Version, m.Files = firstVersion, []File{}
	if dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // only read
		if m.Files, err = t.sendTree(ctx, root, prefix, scan); err != nil {
			return nil, err
		}
	}
	for i := range m.Files {
		m.Version = max(m.Version, m.Files[i].version())
	}
	body, err := json.Marshal(&m)
	if err != nil {
		return nil, err
	}
	uri, err := grant.Below(prefix, manifestName)
	if err != nil {
		return nil, err
	}
	md := md5.Sum(body) //nolint:gosec // see above
	g := &granted{want: grant.Want{Op: grant.Put, URI: uri, Size: int64(len(body)),
		Sum: grant.Sum{Kind: grant.MD5, Value: md[:]}}}
	open := func() (io.Reader, io.Closer, error) { return bytes.NewReader(body), nil, nil }
	if err := t.put(ctx, g, open, nil); err != nil {
		return nil, fmt.Errorf("write manifest of %s: %w", prefix, err)
	}
	return &m, nil
}

// sendTree uploads the files of a directory and returns their list.
func (t Transfer) sendTree(ctx context.Context, root *os.Root, prefix string, scan Scan) ([]File, error) {
	entries, err := scan.list(ctx, root)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(entries))
	list := make([]*source, 0, len(entries))
	var small []*source
	for i := range entries {
		if files[i] = entries[i].File; !files[i].regular() {
			continue
		}
		s := &source{root: root, path: files[i].Path, size: files[i].Size, digest: true, file: &files[i]}
		if s.size <= bundledSize {
			small = append(small, s)
		} else {
			list = append(list, s)
		}
	}
	bundles := []*bundle{}
	if len(small) >= bundledLeast {
		bundles, err = bundled(prefix, small)
	} else {
		list = append(list, small...)
	}
	for _, s := range list {
		if err == nil {
			s.uri, err = fileURI(prefix, s.path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
	}
	return files, t.sendAll(ctx, list, bundles...)
}

// Tree is a manifest and the destination of its files.
type Tree struct {
	Prefix   string // a URI
	Dir      string // created if missing
	Manifest *Manifest
	Only     []string // paths to download, with everything below them; nil is all
}

// Download downloads the files in the manifest below prefix into dir. It returns ErrIncomplete or ErrCorrupt.
func (t Transfer) Download(ctx context.Context, prefix, dir string) (*Manifest, error) {
	m, err := t.ReadManifests(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return m[0], t.Fill(ctx, Tree{Prefix: prefix, Dir: dir, Manifest: m[0]})
}

// Fill downloads the files in manifests. Every file is checked before it appears under its name.
func (t Transfer) Fill(ctx context.Context, trees ...Tree) error {
	var list []wanted
	roots := make([]*os.Root, 0, len(trees))
	defer func() {
		for _, root := range roots {
			_ = root.Close() // its files are already closed, with errors checked
		}
	}()
	trees = slices.Clone(trees)
	for i := range trees {
		if trees[i].Only != nil {
			trees[i].Manifest = trees[i].Manifest.only(trees[i].Only)
		}
	}
	for _, tree := range trees {
		if err := os.MkdirAll(tree.Dir, 0o755); err != nil { //nolint:gosec // as a user's own mkdir
			return err
		}
		root, err := os.OpenRoot(tree.Dir)
		if err != nil {
			return err
		}
		roots = append(roots, root)
		bundles, err := bundlesOf(&tree, root)
		if err != nil {
			return err
		}
		list = append(list, bundles...)
		for i := range tree.Manifest.Files {
			switch f := &tree.Manifest.Files[i]; {
			case f.Dir:
				if err := root.MkdirAll(f.Path, 0o755); err != nil {
					return err
				}
			case f.regular() && f.Bundle == 0:
				uri, err := fileURI(tree.Prefix, f.Path)
				if err != nil {
					return fmt.Errorf("%w: %w", ErrCorrupt, err)
				}
				list = append(list, wanted{root: root, file: *f, size: f.Size, uri: uri})
			}
		}
	}
	if err := t.getAll(ctx, list); err != nil {
		return err
	}
	for i, tree := range trees { // links come last, so that no file is written through one
		for j := range tree.Manifest.Files {
			if f := &tree.Manifest.Files[j]; f.Link != "" {
				if err := link(roots[i], f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// partSuffix is the suffix of a file that is being written.
const partSuffix = ".tradewind-part"

// maxName is the maximum length of a file name, in bytes.
const maxName = 255

// partOf returns the path, in the same directory, to which a file is written until it is complete. A name that would
// be too long with the suffix is replaced by its hash.
func partOf(p string) string {
	if name := path.Base(p); len(name)+len(partSuffix) > maxName {
		sum := sha256.Sum256([]byte(name))
		p = path.Join(path.Dir(p), hex.EncodeToString(sum[:]))
	}
	return p + partSuffix
}

// write creates a file below root. The file appears under its name when fill has succeeded.
func write(root *os.Root, p string, mode fs.FileMode, fill func(*os.File) error) error {
	if err := root.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	if mode = mode.Perm(); mode == 0 {
		mode = 0o644
	}
	part := partOf(p)
	f, err := root.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode|0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = root.Chmod(part, mode)
	}
	if err == nil {
		err = root.Rename(part, p)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

// link creates the symbolic link f below root. It replaces an existing file.
func link(root *os.Root, f *File) error {
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(f.Link, f.Path)
}

// each calls do for 0 … n-1, several at a time, until one fails.
func (t Transfer) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, each := errgroup.WithContext(ctx) // each is cancelled by the first failure, and by Wait
	g.SetLimit(t.parallel())
	for i := range n {
		if each.Err() != nil {
			break
		}
		g.Go(func() error { return do(each, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
