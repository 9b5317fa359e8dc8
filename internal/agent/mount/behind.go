package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// writeBehind uploads what a task writes to a folder of this machine to the store, shortly after the task has written
// it. The folder lies over rclone's mount (see overlay), so that the task sees both as one: it writes to the folder, at
// the speed of the disk, and reads everything else from the store. rclone then uploads nothing: its cache costs several
// times the processor time of copying the file.
//
// A pass compares the folder with the uploaded files. It uploads new and changed files, and removes from the store the
// files that the task has removed. Only one pass runs at a time.
type writeBehind struct {
	overlay
	send      func(ctx context.Context, dir string, files []string) error
	remove    func(ctx context.Context, file string) error
	forget    func(ctx context.Context) error // makes rclone read the store's listings again
	validName func(name string) bool          // whether an object can have a name; nil accepts every name

	stop context.CancelFunc
	done sync.WaitGroup

	// capacity 1, held by the running pass; a channel, because callers only wait as long as their ctx
	turn        chan struct{}
	applied     map[string]bool // whiteouts and opaque directories whose hidden files were already removed
	lastRefresh time.Time       // when rclone last read the store's listings again

	mu     sync.Mutex       // guards the fields below, which only the running pass changes
	sent   map[string]stamp // files that have been uploaded
	unkept map[string]bool  // files that no store can hold, such as links that leave the folder
}

// stamp identifies a version of a file: if it differs, the file has changed.
type stamp struct {
	inode           uint64
	size            int64
	written, change int64 // mtime and ctime, ns
}

// Times of the passes. A file that no process has open counts as complete one second after its last write.
const (
	quietTime       = time.Second
	restPart        = 20 // pause as a multiple of a pass's duration: passes take at most a twentieth of a processor
	restMost        = time.Minute
	refreshInterval = 10 * time.Second
	sendAtOne       = 4096 // files
)

func (b *writeBehind) start() {
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.reset()
	b.done.Go(func() { b.run(ctx) })
}

// reset sets the initial state: nothing has been uploaded.
func (b *writeBehind) reset() {
	b.turn = make(chan struct{}, 1)
	b.sent, b.applied, b.lastRefresh = map[string]stamp{}, map[string]bool{}, time.Now()
}

func (b *writeBehind) close() {
	b.stop()
	b.done.Wait()
}

// run makes passes until it is stopped. It repeats a failed pass with growing pauses. Flush reports the files that are
// still not uploaded when the task ends.
func (b *writeBehind) run(ctx context.Context) {
	rest := quietTime
	for clock.Pause(ctx, rest) == nil {
		began := time.Now()
		_, err := b.pass(ctx, quietTime)
		if err != nil {
			rest = min(2*rest, restMost)
			continue
		}
		rest = min(max(quietTime, restPart*time.Since(began)), restMost)
	}
}

// pass uploads the files whose last write is at least quiet ago and that no process has open for writing. It removes
// from the store the files that the task removed. It returns the files that a process still has open. If another pass
// runs, it waits for that one until ctx ends.
func (b *writeBehind) pass(ctx context.Context, quiet time.Duration) (open []string, err error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	seen, err := b.scan(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.unkept = seen.unkept
	b.mu.Unlock()
	ready, open := b.ready(seen, quiet)
	linked := func(file string) bool { return seen.links[file] }
	if err := b.sendAll(ctx, seen, b.upper, slices.DeleteFunc(slices.Clone(ready), linked)); err != nil {
		return open, err
	}
	// The target of a link may lie in the store, so links are read through the mount.
	links := slices.DeleteFunc(ready, func(file string) bool { return !linked(file) })
	if err := b.sendAll(ctx, seen, b.point, links); err != nil {
		return open, err
	}
	if err := b.removeHidden(ctx, seen); err != nil {
		return open, err
	}
	if time.Since(b.lastRefresh) < refreshInterval {
		return open, nil
	}
	// rclone still shows the files that the task deleted during this pass. Remove them before rclone reads the listings
	// again, because afterwards they look the same as files that other machines have written since.
	if seen, err = b.scan(ctx); err == nil {
		err = b.removeHidden(ctx, seen)
	}
	if err != nil {
		return open, err
	}
	b.lastRefresh = time.Now()
	return open, errors.Join(b.forget(ctx), b.refresh())
}

func (b *writeBehind) sendAll(ctx context.Context, seen *contents, dir string, files []string) error {
	for some := range slices.Chunk(files, sendAtOne) {
		if err := b.send(ctx, dir, some); err != nil {
			return err
		}
		b.mu.Lock()
		for _, file := range some {
			b.sent[file] = seen.files[file] // a file that changed meanwhile has another stamp in the next pass
		}
		b.mu.Unlock()
	}
	return nil
}

// ready returns the files to upload, and those that a process has open.
func (b *writeBehind) ready(seen *contents, quiet time.Duration) (ready, open []string) {
	for _, file := range slices.Sorted(maps.Keys(seen.files)) {
		s := seen.files[file]
		if had, ok := b.sent[file]; ok && had == s {
			continue
		}
		if quiet > 0 && time.Since(time.Unix(0, s.written)) < quiet {
			continue
		}
		if beingWritten(filepath.Join(b.upper, file)) {
			open = append(open, file)
			continue
		}
		ready = append(ready, file)
	}
	return ready, open
}

// removeHidden deletes from the store the files that the task has deleted: uploaded files that are no longer in the
// folder, and files of the store that the folder marks as deleted.
//
// rclone reads the store's listings again only after a pass. So every file that it shows in a hidden directory existed
// before the task hid the directory; no other machine has written it since.
func (b *writeBehind) removeHidden(ctx context.Context, seen *contents) error {
	for _, file := range slices.Sorted(maps.Keys(b.sent)) {
		if _, there := seen.files[file]; there {
			continue
		}
		if err := b.remove(ctx, file); err != nil {
			return fmt.Errorf("remove %s: %w", file, err)
		}
		b.mu.Lock()
		delete(b.sent, file)
		b.mu.Unlock()
	}
	for name := range b.applied {
		if !slices.Contains(seen.white, name) && seen.opaque[name].IsZero() {
			delete(b.applied, name)
		}
	}
	for _, name := range seen.white {
		if err := b.removeBelow(ctx, seen, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.opaque)) {
		// Every directory that a task creates is opaque. If the task created it before rclone last read the listings,
		// the directory now hides files that others have since written to a directory of this name. These must not be
		// removed.
		if seen.opaque[name].Before(b.lastRefresh) {
			b.applied[name] = true
		}
		if err := b.removeBelow(ctx, seen, name); err != nil {
			return err
		}
	}
	return nil
}

// removeBelow removes a file from the store, or all files of a directory, except those that are in the folder.
func (b *writeBehind) removeBelow(ctx context.Context, seen *contents, name string) error {
	if b.applied[name] {
		return nil
	}
	err := filepath.WalkDir(filepath.Join(b.lower, name), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel(b.lower, p)
		if err != nil {
			return err
		}
		if _, there := seen.files[file]; there {
			return nil
		}
		if err := b.remove(ctx, file); err != nil {
			return fmt.Errorf("remove %s: %w", file, err)
		}
		return nil
	})
	b.applied[name] = err == nil
	return err
}

// contents is the content of the folder.
type contents struct {
	files  map[string]stamp
	links  map[string]bool      // files that are links
	white  []string             // whiteouts: files of the store that the task removed
	opaque map[string]time.Time // directories that hide a directory of the store, with their creation times
	unkept map[string]bool
}

// scan lists the folder.
func (b *writeBehind) scan(ctx context.Context) (*contents, error) {
	out := &contents{
		files: map[string]stamp{}, links: map[string]bool{}, opaque: map[string]time.Time{}, unkept: map[string]bool{},
	}
	root, err := os.OpenRoot(b.point)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	err = filepath.WalkDir(b.upper, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) && p != b.upper {
			return nil // it was removed meanwhile
		}
		if err != nil || p == b.upper { // an unreadable folder is an error; its files do not count as removed
			return err
		}
		name, err := filepath.Rel(b.upper, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && b.noteMark(out, name):
			return nil
		case err != nil:
			return err
		case info.IsDir():
			if made, ok := opaqueSince(p); ok {
				out.opaque[name] = made
			}
		case isWhiteout(info):
			out.white = append(out.white, name)
		case b.validName != nil && !b.validName(filepath.ToSlash(name)):
			out.unkept[name] = true
		case info.Mode()&fs.ModeSymlink != 0:
			// Stores have no links: the target is copied, as it is for outputs.
			if info, err = root.Stat(name); err != nil || !info.Mode().IsRegular() {
				out.unkept[name] = true
				return nil
			}
			out.files[name], out.links[name] = stampOf(info), true
		case info.Mode().IsRegular():
			out.files[name] = stampOf(info)
		default:
			out.unkept[name] = true
		}
		return nil
	})
	return out, err
}

// uploadClosed returns when everything that was closed before the call has been uploaded.
func (b *writeBehind) uploadClosed(ctx context.Context) error {
	if _, err := b.pass(ctx, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return nil
}

// flush returns when everything that was written has been uploaded. It waits for files that a process has open and
// retries failed uploads, until no file has been uploaded for the duration still.
func (b *writeBehind) flush(ctx context.Context, still time.Duration) error {
	since, had := time.Now(), -1
	for {
		began := time.Now()
		open, err := b.pass(ctx, 0)
		left, arrived := b.unsent() // also what was written during the pass
		switch {
		case err == nil && len(open) == 0 && len(left) == 0:
			return nil
		case errors.Is(err, ErrRefused):
			return fmt.Errorf("%w: %s: %w", ErrUnsent, names(left), err)
		case arrived != had, time.Since(began) > still: // a long pass made progress, or its requests ended
			since, had = time.Now(), arrived
		case time.Since(since) > still:
			return fmt.Errorf("nothing moved for %v: %w: %s: %w", still, ErrUnsent, names(left),
				errors.Join(err, inUse(open)))
		}
		if clock.Pause(ctx, flushPause) != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnsent, names(left), context.Cause(ctx))
		}
	}
}

func inUse(open []string) error {
	if len(open) == 0 {
		return nil
	}
	return fmt.Errorf("still open: %s", names(open))
}

// unsent returns the files that have not been uploaded, and the number of uploaded ones.
func (b *writeBehind) unsent() (left []string, arrived int) {
	seen, err := b.scan(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		return nil, len(b.sent)
	}
	for file, s := range seen.files {
		if b.sent[file] != s {
			left = append(left, file)
		}
	}
	return left, len(b.sent)
}

// Unkept returns the names below the mount that no store can hold: names that are not UTF-8 or contain a backslash or
// a line break, links to directories or to targets outside the mount, sockets and the like.
func (m *Mount) Unkept() []string {
	if m.behind == nil {
		return nil
	}
	m.behind.mu.Lock()
	defer m.behind.mu.Unlock()
	return slices.Sorted(maps.Keys(m.behind.unkept))
}

// remover removes a file from the store through rclone, which has the credentials.
func (m *Mount) remover(ctx context.Context, file string) error {
	var answer struct{}
	err := m.rc.call(ctx, "operations/deletefile",
		map[string]string{"fs": m.config.remote, "remote": path.Clean(filepath.ToSlash(file))}, &answer)
	if err != nil && strings.Contains(err.Error(), "object not found") { // another process has removed it
		return nil
	}
	return err
}

// refreshListings makes rclone read the store's listings again at the next access.
func (m *Mount) refreshListings(ctx context.Context) error {
	var answer struct{}
	return m.rc.call(ctx, "vfs/forget", struct{}{}, &answer)
}
