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
	"os"
	"path"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"
)

// Transfer says how files are moved. The zero value is useful.
type Transfer struct {
	Parallel int // files at a time; 0 is 8
	Tries    int // of one file; 0 is 3
}

// Upload copies what scan finds in dir to b below prefix, and the manifest last. m says whose it is; its
// list of files is filled in. No file may change meanwhile; one that does fails the upload with ErrChanging. dir ""
// has no files.
func (t Transfer) Upload(ctx context.Context, b *blob.Bucket, prefix, dir string, scan Scan,
	m Manifest) (*Manifest, error) {
	var root *os.Root
	var entries []entry
	if dir != "" {
		var err error
		if root, err = os.OpenRoot(dir); err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // only read
		if entries, err = scan.list(ctx, root); err != nil {
			return nil, err
		}
	}
	m.Version, m.Files = manifestVersion, make([]File, len(entries))
	err := t.each(ctx, len(entries), func(ctx context.Context, i int) error {
		f := entries[i].File
		defer func() { m.Files[i] = f }()
		if !f.regular() {
			return nil
		}
		return t.retry(ctx, func() (err error) {
			f.SHA256, err = put(ctx, b, path.Join(prefix, filesPrefix, f.Path), root, &f)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(&m)
	if err != nil {
		return nil, err
	}
	err = t.retry(ctx, func() error {
		return b.WriteAll(ctx, path.Join(prefix, manifestName), body,
			&blob.WriterOptions{ContentType: "application/json"})
	})
	if err != nil {
		return nil, fmt.Errorf("write manifest of %s: %w", prefix, err)
	}
	return &m, nil
}

// put copies one file to key and returns the hash of what it copied.
func put(ctx context.Context, b *blob.Bucket, key string, root *os.Root, f *File) (string, error) {
	src, err := root.Open(f.Path)
	if err != nil {
		return "", err
	}
	defer src.Close() //nolint:errcheck // only read
	// A writer whose context ended before Close leaves no object behind.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", f.Path, err)
	}
	hash := sha256.New()
	n, err := io.Copy(w, io.TeeReader(src, hash))
	if err == nil && n != f.Size {
		err = fmt.Errorf("%w: %d bytes, then %d", ErrChanging, f.Size, n)
	}
	if err != nil {
		cancel()
		_ = w.Close()
		return "", fmt.Errorf("write %s: %w", f.Path, err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("write %s: %w", f.Path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Download brings what the manifest below prefix lists into dir, which is made when missing. Every file is checked
// against the manifest before it appears under its name. It fails with ErrIncomplete or ErrCorrupt.
func (t Transfer) Download(ctx context.Context, b *blob.Bucket, prefix, dir string) (*Manifest, error) {
	m, err := ReadManifest(ctx, b, prefix)
	if err != nil {
		return nil, err
	}
	return m, t.download(ctx, b, prefix, dir, m)
}

func (t Transfer) download(ctx context.Context, b *blob.Bucket, prefix, dir string, m *Manifest) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as a user's own mkdir
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	err = t.each(ctx, len(m.Files), func(ctx context.Context, i int) error {
		switch f := &m.Files[i]; {
		case f.Dir:
			return root.MkdirAll(f.Path, 0o755)
		case f.Link != "":
			return nil
		default:
			return t.retry(ctx, func() error { return get(ctx, b, path.Join(prefix, filesPrefix, f.Path), root, f) })
		}
	})
	if err != nil {
		return err
	}
	for i := range m.Files { // last, so that nothing is written through one
		if f := &m.Files[i]; f.Link != "" {
			if err := link(root, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// get brings one object to f.Path below root and checks it, where f has a hash.
func get(ctx context.Context, b *blob.Bucket, key string, root *os.Root, f *File) error {
	r, err := b.NewReader(ctx, key, nil)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound {
			return fmt.Errorf("%w: %s is missing", ErrCorrupt, key)
		}
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer r.Close() //nolint:errcheck // only read
	return write(root, f.Path, f.Mode, func(w io.Writer) error {
		if f.SHA256 == "" {
			_, err := io.Copy(w, r)
			return err
		}
		hash := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(r, f.Size+1))
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		if got := hex.EncodeToString(hash.Sum(nil)); n != f.Size || got != f.SHA256 {
			return fmt.Errorf("%w: %s is not as its manifest says", ErrCorrupt, key)
		}
		return nil
	})
}

// partSuffix marks a file that is being written.
const partSuffix = ".tradewind-part"

// write makes a file below root that appears under its name when fill has succeeded.
func write(root *os.Root, p string, mode fs.FileMode, fill func(io.Writer) error) error {
	if err := root.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	if mode = mode.Perm(); mode == 0 {
		mode = 0o644
	}
	part := p + partSuffix
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o200)
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
	limit := t.Parallel
	if limit <= 0 {
		limit = 8
	}
	g.SetLimit(limit)
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

// retry does what may fail for a moment again, with a growing pause.
func (t Transfer) retry(ctx context.Context, do func() error) error {
	tries := t.Tries
	if tries <= 0 {
		tries = 3
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 200 * time.Millisecond
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && !passing(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(uint(tries))) //nolint:gosec // positive
	return err
}

// passing says whether trying again can help: not against our own findings, nor a bucket's clear no.
func passing(err error) bool {
	for _, final := range []error{ErrLeaves, ErrChanging, ErrTooMany, fs.ErrNotExist, fs.ErrPermission, fs.ErrExist,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, final) {
			return false
		}
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented,
		gcerrors.Canceled:
		return false
	}
	return true
}
