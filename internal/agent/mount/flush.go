package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// Settle returns when every file that was closed before the call has been uploaded.
func (m *Mount) Settle(ctx context.Context) error {
	if !m.Writes() {
		return nil
	}
	if m.behind != nil {
		return m.withURI(m.behind.uploadClosed(ctx))
	}
	before, err := m.rc.queue(ctx)
	if err != nil {
		return m.actualError(ctx, err)
	}
	waited := map[uint64]bool{}
	for _, q := range before {
		waited[q.ID] = true
	}
	return m.wait(ctx, func(queue []queued) ([]queued, []string, error) {
		return slices.DeleteFunc(queue, func(q queued) bool { return !waited[q.ID] }), nil, nil
	})
}

// Flush returns when everything that was written has been uploaded. It waits for processes that still write. It
// returns ErrUnsent with the names of the missing files if a file is refused for good, if nothing has moved for
// Spec.Still, or if ctx ends, and ErrLost if rclone has ended.
func (m *Mount) Flush(ctx context.Context) error {
	if !m.Writes() {
		return nil
	}
	if m.behind != nil {
		return m.withURI(m.behind.flush(ctx, m.still()))
	}
	return m.wait(ctx, func(queue []queued) ([]queued, []string, error) {
		if len(queue) > 0 {
			return queue, nil, nil
		}
		left, err := m.unsent() // a file that was not closed is not in the queue yet
		return nil, left, err
	})
}

// withURI adds the URI of the mount to an error, or replaces the error if rclone has ended.
func (m *Mount) withURI(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-m.tree.Done():
		return m.Lost()
	default:
		return fmt.Errorf("%s: %w", m.spec.URI, err)
	}
}

// still returns the time without any progress after which a flush fails.
func (m *Mount) still() time.Duration {
	if m.spec.Still <= 0 {
		return stillFor
	}
	return m.spec.Still
}

const (
	flushPause = 50 * time.Millisecond
	retryIn    = 2.0 // seconds
	manyTries  = 4
)

// wait polls until left returns no files.
func (m *Mount) wait(ctx context.Context, left func([]queued) ([]queued, []string, error)) error {
	still := m.still()
	var seen string
	since := time.Now()
	for {
		queue, err := m.rc.queue(ctx)
		if err != nil {
			return m.actualError(ctx, err)
		}
		waiting, open, err := left(queue)
		if err != nil {
			return err
		}
		if len(waiting)+len(open) == 0 {
			return nil
		}
		if why := m.refused(waiting); why != "" {
			return fmt.Errorf("%s: %w: %s: %s", m.spec.URI, ErrUnsent, namesOf(waiting), why)
		}
		moved, _ := m.rc.moved(ctx) // on an error, only the number of files shows progress
		if now := fmt.Sprint(len(waiting), len(open), moved); now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > still {
			return fmt.Errorf("%s: nothing moved for %v: %w: %s: %s", m.spec.URI, still, ErrUnsent,
				namesOf(waiting, open...), m.lastError())
		}
		m.push(ctx, waiting)
		if err := clock.Pause(ctx, flushPause); err != nil {
			return fmt.Errorf("%s: %w: %s: %w", m.spec.URI, ErrUnsent, namesOf(waiting, open...), context.Cause(ctx))
		}
	}
}

// push speeds up files that rclone would hold back for more writes or for a late retry.
func (m *Mount) push(ctx context.Context, waiting []queued) {
	for _, q := range waiting {
		switch {
		case q.Uploading:
		case q.Tries == 0 && q.Expiry > 0:
			_ = m.rc.hasten(ctx, q.ID, 0) // on an error, the next round tries again
		case q.Expiry > retryIn:
			_ = m.rc.hasten(ctx, q.ID, retryIn)
		}
	}
}

// refused returns the store's error for a file that the store will never accept; "" if there is none.
func (m *Mount) refused(waiting []queued) string {
	if !slices.ContainsFunc(waiting, func(q queued) bool { return q.Tries >= manyTries }) {
		return ""
	}
	words := m.lastError()
	for _, sign := range []string{
		"AccessDenied", "Access Denied", "Forbidden", "403", "NoSuchBucket", "ContainerNotFound",
		"AuthorizationPermission", "permission denied", "read-only file system", "no space left", "quota",
	} {
		if strings.Contains(words, sign) {
			return words
		}
	}
	return ""
}

// actualError replaces an error of the remote control by the actual reason if rclone or ctx has ended.
func (m *Mount) actualError(ctx context.Context, err error) error {
	select {
	case <-m.tree.Done():
		return m.Lost()
	default:
	}
	if ctx.Err() != nil {
		left, _ := m.unsent()
		return fmt.Errorf("%s: %w: %s: %w", m.spec.URI, ErrUnsent, names(left), context.Cause(ctx))
	}
	select { // the socket closes before the process ends
	case <-m.tree.Done():
		return m.Lost()
	case <-time.After(time.Second):
	}
	return fmt.Errorf("%s: %w", m.spec.URI, err)
}

// unsent returns the files that rclone's cache metadata lists as written but not uploaded. The metadata is on disk
// and also exists when rclone has ended.
func (m *Mount) unsent() (files []string, err error) {
	if m.behind != nil {
		files, _ = m.behind.unsent()
		return files, nil
	}
	notes := filepath.Join(m.spec.Dir, "cache", "vfsMeta")
	top := ""
	err = filepath.WalkDir(notes, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // nothing was written, or it was uploaded meanwhile
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path) //nolint:gosec // of the mount's own directory
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		note := struct{ Dirty bool }{true} // if it is just being written, the file counts as unsent
		if err == nil && json.Unmarshal(body, &note) == nil && !note.Dirty {
			return nil
		}
		if top == "" {
			top = filepath.Join(notes, m.config.notes)
		}
		if rel, err := filepath.Rel(top, path); err == nil {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
}

// maxNamesShown is the maximum number of files that an error names.
const maxNamesShown = 10

func namesOf(waiting []queued, more ...string) string {
	files := slices.Clone(more)
	for _, q := range waiting {
		files = append(files, q.Name)
	}
	return names(files)
}

func names(files []string) string {
	slices.Sort(files)
	if n := len(files) - maxNamesShown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:maxNamesShown], ", "), n)
	}
	return strings.Join(files, ", ")
}

func (m *Mount) logPath() string { return filepath.Join(m.spec.Dir, "log") }

const wordsBytes = 600

// lastError returns the last line of rclone's log that mentions an error, or else the last line.
func (m *Mount) lastError() string {
	body, err := os.ReadFile(m.logPath())
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	last := lines[len(lines)-1]
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "Fatal") || strings.Contains(line, "CRITICAL") {
			last = line
			break
		}
	}
	if _, rest, dated := strings.Cut(last, " ERROR : "); dated {
		last = rest
	}
	if len(last) > wordsBytes {
		last = last[:wordsBytes]
	}
	return last
}
