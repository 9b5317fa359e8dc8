package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Unfinished reports whether a name is by convention that of a file that is still being written: it ends in ".tmp" or
// "~". Snapshots leave such files out, so that they never contain half a file of a program that writes and then
// renames.
func Unfinished(p string) bool {
	return strings.HasSuffix(p, ".tmp") || strings.HasSuffix(p, "~") || strings.HasSuffix(p, partSuffix)
}

// Snapshot copies src to dst, which it empties first, as src was at one moment: nothing in src changed between the
// first and the last listing. If a file changes, Snapshot starts again, until ctx ends; then it returns ErrChanging. It
// returns src's Fingerprint. It leaves out files that a manifest cannot represent, and calls note for them. The disk
// belongs to the task: if there is not enough space for a copy, Snapshot returns ENOSPC before it uses any, and it
// removes failed copies.
func Snapshot(ctx context.Context, src, dst string, note func(string)) (fingerprint string, err error) {
	from, err := os.OpenRoot(src)
	if err != nil {
		return "", err
	}
	defer from.Close() //nolint:errcheck // only read
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 20*time.Millisecond, time.Second
	var last error
	got, err := backoff.Retry(ctx, func() (string, error) {
		print, err := snapshotOnce(ctx, from, dst, Scan{Ignore: Unfinished, Note: note})
		switch {
		case errors.Is(err, ErrChanging):
			last = err
		case err != nil:
			err = backoff.Permanent(err)
		}
		return print, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0))
	if err != nil && ctx.Err() != nil && last != nil {
		err = last
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dst))
	}
	return got, err
}

// spare is the disk space that a large copy must leave to the task, in bytes.
const spare = 64 << 20

func snapshotOnce(ctx context.Context, from *os.Root, dst string, scan Scan) (string, error) {
	if err := os.RemoveAll(dst); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dst, 0o700); err != nil {
		return "", err
	}
	to, err := os.OpenRoot(dst)
	if err != nil {
		return "", err
	}
	defer to.Close() //nolint:errcheck // only read
	began := time.Now()
	before, err := scan.list(ctx, from)
	if err != nil {
		return "", asChange(err)
	}
	listed := time.Now()
	need := int64(0)
	for i := range before {
		need += before[i].Size
	}
	if err := Room(dst, need+min(need, spare)); err != nil {
		return "", err
	}
	for i := range before {
		if err := copyEntry(ctx, from, to, &before[i]); err != nil {
			return "", asChange(err)
		}
	}
	after, err := scan.list(ctx, from)
	if err != nil {
		return "", asChange(err)
	}
	if p := differs(before, after); p != "" {
		return "", fmt.Errorf("%s %w", p, ErrChanging)
	}
	if p := racyEntry(before, began, listed); p != "" {
		return "", fmt.Errorf("%s %w", p, ErrChanging)
	}
	return fingerprintOf(before), nil
}

// asChange treats a file that disappeared as a change.
func asChange(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrChanging, err)
	}
	return err
}

func copyEntry(ctx context.Context, from, to *os.Root, e *entry) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e.Dir:
		return to.MkdirAll(e.Path, 0o755)
	case e.Link != "":
		return link(to, &e.File)
	}
	return write(to, e.Path, e.Mode, func(w *os.File) error {
		r, err := from.Open(e.Path)
		if err != nil {
			return err
		}
		defer r.Close() //nolint:errcheck // only read
		// Copy at most the listed size: a file that keeps growing must not block the copy.
		return copyPieces(ctx, w, r, e.Size)
	})
}

// copiedAtOnce is the number of bytes of a file that are copied between two checks of ctx.
const copiedAtOnce = 8 << 20

// copyPieces copies size bytes, or fewer if there are fewer.
func copyPieces(ctx context.Context, w io.Writer, r io.Reader, size int64) error {
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(w, r, min(size, copiedAtOnce))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// differs returns a path that differs between the two lists, "" if there is none.
func differs(a, b []entry) string {
	for i := range min(len(a), len(b)) {
		if !a[i].same(&b[i]) {
			return a[i].Path
		}
	}
	switch {
	case len(a) > len(b):
		return a[len(b)].Path
	case len(b) > len(a):
		return b[len(a)].Path
	}
	return ""
}

// same reports whether two listings of an entry are the same.
func (e *entry) same(o *entry) bool {
	return e.Path == o.Path && e.Size == o.Size && e.Mode == o.Mode && e.Link == o.Link && e.Dir == o.Dir &&
		e.modified.Equal(o.modified)
}

// fileTick is longer than the resolution of a file system's timestamps.
const fileTick = 20 * time.Millisecond

// racyEntry returns a file that was changed during the first listing, or so shortly before it that a later change may
// have the same timestamp (the "racily clean" entries of git's index). A time after the listing comes from another
// machine's clock, not from a recent change.
func racyEntry(entries []entry, began, listed time.Time) string {
	for i := range entries {
		if at := entries[i].modified; at.After(began.Add(-fileTick)) && !at.After(listed) {
			return entries[i].Path
		}
	}
	return ""
}

// Fingerprint returns a string that stays the same as long as the names, sizes, links and modification times in a
// directory do; "" for a directory without files. It ignores unfinished files, and files that a manifest cannot
// represent; it calls note for the latter.
func Fingerprint(ctx context.Context, dir string, note func(string)) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // only read
	entries, err := Scan{Ignore: Unfinished, Note: note}.list(ctx, root)
	if err != nil {
		return "", err
	}
	return fingerprintOf(entries), nil
}

func fingerprintOf(entries []entry) string {
	if len(entries) == 0 {
		return ""
	}
	hash := sha256.New()
	for i := range entries {
		e := &entries[i]
		_, _ = fmt.Fprintf(hash, "%q %d %q %d\n", e.Path, e.Size, e.Link, e.modified.UnixNano())
	}
	return hex.EncodeToString(hash.Sum(nil))
}
