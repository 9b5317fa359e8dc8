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

	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// behind brings what a task writes to a folder of this machine to the store, some moments after the task. The folder
// lies over rclone's mount (see overlay), so the task sees both as one: what it writes goes to the folder, at the pace
// of the disk, and what it does not write is read from the store. rclone uploads nothing then: each file through its
// cache costs several times the processor time of copying it.
//
// A pass compares the folder with what has arrived: what is new or changed is uploaded, and what the task has removed
// is removed. Only one pass runs at a time.
type behind struct {
	overlay
	send   func(ctx context.Context, dir string, files []string) error
	remove func(ctx context.Context, file string) error
	forget func(ctx context.Context) error // has rclone look at the store anew
	fits   func(name string) bool          // whether an object can have a name; nil is always

	stop context.CancelFunc
	done sync.WaitGroup

	turn  chan struct{}   // of one, the pass that runs: an upload may take longer than others can wait
	acted map[string]bool // whiteouts and opaque directories that removed what they hide
	fresh time.Time       // when rclone last looked anew

	mu     sync.Mutex       // guards what follows, which the pass that runs alone changes
	sent   map[string]stamp // what has arrived
	unkept map[string]bool  // what no store can keep, such as links that leave the folder
}

// stamp tells whether a file has changed.
type stamp struct {
	inode           uint64
	size            int64
	written, change int64 // ns: of the content, and of anything
}

// Times of the passes. A second after it was last written a file that nobody has open is taken to be whole.
const (
	settled   = time.Second
	restPart  = 20 // of the time of a pass, so that looking costs a twentieth of a processor at most
	restMost  = time.Minute
	lookAnew  = 10 * time.Second
	sendAtOne = 4096 // files
)

func (b *behind) start() {
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.reset()
	b.done.Go(func() { b.run(ctx) })
}

// reset is how it begins: nothing has arrived.
func (b *behind) reset() {
	b.turn = make(chan struct{}, 1)
	b.sent, b.acted, b.fresh = map[string]stamp{}, map[string]bool{}, time.Now()
}

func (b *behind) close() {
	b.stop()
	b.done.Wait()
}

// run makes passes until it is stopped. A pass that fails is made again, later each time: what is not uploaded when
// the task ends is what Flush tells.
func (b *behind) run(ctx context.Context) {
	rest := settled
	for clock.Pause(ctx, rest) == nil {
		began := time.Now()
		_, err := b.pass(ctx, settled)
		if err != nil {
			rest = min(2*rest, restMost)
			continue
		}
		rest = min(max(settled, restPart*time.Since(began)), restMost)
	}
}

// pass uploads the files that were last written so long ago and that nobody writes to, and removes what was removed. It
// returns the files that somebody still has open. It waits for a pass that runs no longer than ctx lasts.
func (b *behind) pass(ctx context.Context, quiet time.Duration) (open []string, err error) {
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
	// What a link points to may lie in the store.
	links := slices.DeleteFunc(ready, func(file string) bool { return !linked(file) })
	if err := b.sendAll(ctx, seen, b.point, links); err != nil {
		return open, err
	}
	if err := b.removeHidden(ctx, seen); err != nil {
		return open, err
	}
	if time.Since(b.fresh) < lookAnew {
		return open, nil
	}
	// What the task has hidden during the pass hides what rclone shows now. Once that looks anew nobody can tell what
	// others have written since.
	if seen, err = b.scan(ctx); err == nil {
		err = b.removeHidden(ctx, seen)
	}
	if err != nil {
		return open, err
	}
	b.fresh = time.Now()
	return open, errors.Join(b.forget(ctx), b.anew())
}

func (b *behind) sendAll(ctx context.Context, seen *contents, dir string, files []string) error {
	for some := range slices.Chunk(files, sendAtOne) {
		if err := b.send(ctx, dir, some); err != nil {
			return err
		}
		b.mu.Lock()
		for _, file := range some {
			b.sent[file] = seen.files[file] // one that changed meanwhile has another stamp at the next pass
		}
		b.mu.Unlock()
	}
	return nil
}

// ready are the files to send, and those that somebody has open.
func (b *behind) ready(seen *contents, quiet time.Duration) (ready, open []string) {
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

// removeHidden removes from the store what the task has removed: files that had arrived and are not in the folder any
// more, and what the folder hides of the store.
//
// rclone looks at the store anew after a pass only. So what it shows of a hidden directory was there before the task
// hid it, and is not what another machine has written since.
func (b *behind) removeHidden(ctx context.Context, seen *contents) error {
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
	for name := range b.acted {
		if !slices.Contains(seen.white, name) && seen.opaque[name].IsZero() {
			delete(b.acted, name)
		}
	}
	for _, name := range seen.white {
		if err := b.removeBelow(ctx, seen, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.opaque)) {
		// Every directory that a task makes is opaque. One that was made before rclone last looked hides what others
		// have written to a directory of this name since.
		if seen.opaque[name].Before(b.fresh) {
			b.acted[name] = true
		}
		if err := b.removeBelow(ctx, seen, name); err != nil {
			return err
		}
	}
	return nil
}

// removeBelow removes a file of the store, or all files of a directory, but for those that are in the folder.
func (b *behind) removeBelow(ctx context.Context, seen *contents, name string) error {
	if b.acted[name] {
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
	b.acted[name] = err == nil
	return err
}

// contents is what lies in the folder.
type contents struct {
	files  map[string]stamp
	links  map[string]bool      // files that are links
	white  []string             // whiteouts: what was removed of the store
	opaque map[string]time.Time // directories that hide one of the store, by when they were made
	unkept map[string]bool
}

// scan lists the folder.
func (b *behind) scan(ctx context.Context) (*contents, error) {
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
		if err != nil || p == b.upper { // a folder that cannot be read is not one whose files were removed
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
		case b.fits != nil && !b.fits(filepath.ToSlash(name)):
			out.unkept[name] = true
		case info.Mode()&fs.ModeSymlink != 0:
			// No store has links: what one points to is copied, as it is of outputs.
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

// settle returns when all that was closed before the call has arrived.
func (b *behind) settle(ctx context.Context) error {
	if _, err := b.pass(ctx, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return nil
}

// flush returns when all that was written has arrived. It waits for files that somebody has open, and tries again what
// fails, until nothing has arrived for so long.
func (b *behind) flush(ctx context.Context, still time.Duration) error {
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
		case arrived != had, time.Since(began) > still: // what takes so long moves, or its requests had ended
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

// unsent names the files that have not arrived, and says how many have.
func (b *behind) unsent() (left []string, arrived int) {
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

// Unkept are names below a mount that no store can keep: those that are not UTF-8, or have a backslash or a line break,
// links to directories or to what lies elsewhere, sockets and the like.
func (m *Mount) Unkept() []string {
	if m.behind == nil {
		return nil
	}
	m.behind.mu.Lock()
	defer m.behind.mu.Unlock()
	return slices.Sorted(maps.Keys(m.behind.unkept))
}

// remover removes a file of the store by rclone, which has the credentials.
func (m *Mount) remover(ctx context.Context, file string) error {
	var answer struct{}
	err := m.rc.call(ctx, "operations/deletefile",
		map[string]string{"fs": m.config.remote, "remote": path.Clean(filepath.ToSlash(file))}, &answer)
	if err != nil && strings.Contains(err.Error(), "object not found") { // somebody else has removed it
		return nil
	}
	return err
}

// anew has rclone look at the store anew when it is next asked.
func (m *Mount) anew(ctx context.Context) error {
	var answer struct{}
	return m.rc.call(ctx, "vfs/forget", struct{}{}, &answer)
}
