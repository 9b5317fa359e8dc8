package stage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // what every store compares with what arrives, not a secret
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

// Transfer says how files are moved, and who lets it. Grants is required; zero values of the others are useful.
type Transfer struct {
	Grants Grants
	// Store is a URI below which everything is reached by grants, though it may be a folder of this machine: that of
	// what jobs keep. Other file URIs are this machine's own files.
	Store string
	// Moved hears of each request what went of its body and came of its answer's, bytes, whether or not it succeeded;
	// nil is nobody. It is called by several goroutines.
	Moved    func(uri string, sent, received int64)
	Client   *http.Client // sends what is granted; one that asks for no compression
	Parallel int          // requests at a time; 0 is 8
	Tries    int          // of one request; 0 is 4
	Part     int64        // bytes; what is larger is moved in such parts; 0 is 16 MiB
	Batch    int          // grants asked for at once; 0 is 500
	Peers    Peers        // nodes that start from the same files; nil where there are none
	Shared   int64        // bytes; what is brought at once and is less is not passed between them; 0 is 64 MiB

	Still time.Duration // how long nothing may come of an object that is read whole; 0 is a minute

	sharing bool // what is brought now is large enough to be shared
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

// Upload copies what scan finds in dir below the URI prefix, and the manifest last. m says whose it is; its list of
// files is filled in. No file may change meanwhile; one that does fails the upload with ErrChanging. dir "" has no
// files.
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

// sendTree uploads the files of a directory and lists them.
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

// Tree is a manifest that was read, and where what it lists is to go.
type Tree struct {
	Prefix   string // a URI
	Dir      string // made when missing
	Manifest *Manifest
	Only     []string // paths that are brought, with all below them; nil is all
}

// Download brings what the manifest below prefix lists into dir. It fails with ErrIncomplete or ErrCorrupt.
func (t Transfer) Download(ctx context.Context, prefix, dir string) (*Manifest, error) {
	m, err := t.ReadManifests(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return m[0], t.Fill(ctx, Tree{Prefix: prefix, Dir: dir, Manifest: m[0]})
}

// Fill brings what manifests list. Every file is checked before it appears under its name.
func (t Transfer) Fill(ctx context.Context, trees ...Tree) error {
	var list []wanted
	roots := make([]*os.Root, 0, len(trees))
	defer func() {
		for _, root := range roots {
			_ = root.Close() // files were closed, and that was checked
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
	for i, tree := range trees { // last, so that nothing is written through one
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

// partSuffix marks a file that is being written.
const partSuffix = ".tradewind-part"

// maxName is the longest name of a file, bytes.
const maxName = 255

// partOf is where a file is written until it is complete, beside it. With the suffix a long name would be too long.
func partOf(p string) string {
	if name := path.Base(p); len(name)+len(partSuffix) > maxName {
		sum := sha256.Sum256([]byte(name))
		p = path.Join(path.Dir(p), hex.EncodeToString(sum[:]))
	}
	return p + partSuffix
}

// write makes a file below root that appears under its name when fill has succeeded.
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

// link makes the symbolic link f below root, in place of what was there.
func link(root *os.Root, f *File) error {
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(f.Link, f.Path)
}

// each calls do for 0 … n-1, some at a time, until one fails.
func (t Transfer) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, each := errgroup.WithContext(ctx) // each ends with the first failure, and with Wait
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
