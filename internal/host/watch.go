package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// folder is the DAG bucket of one machine: a directory that is watched.
type folder struct {
	dir  string
	emit func(ctx context.Context, id string, data events.Data) error
	log  *slog.Logger
	// settle puts packs in the place of what a job names below a folder.
	settle func(ctx context.Context, dir string, spec *dag.Job) error

	mu   sync.Mutex
	told map[string]*told // by name: what is told of once
}

// told is what the broker was told of a file.
type told struct {
	digest string // of its content
	job    bool   // it has become one
}

// bucketURL is the folder as events name it.
func (f *folder) bucketURL() string { return (&url.URL{Scheme: "file", Path: f.dir}).String() }

// Open implements broker.Objects. A key never leaves the folder. A file that was written again since its news is not
// there: the newer content has news of its own, and would be two jobs.
func (f *folder) Open(_ context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	if o.Bucket != f.bucketURL() {
		return nil, "", fmt.Errorf("bucket %s: %w", o.Bucket, fs.ErrNotExist)
	}
	file, err := f.open(o.Key)
	if err != nil {
		return nil, "", err
	}
	digest, err := digestOf(file)
	if err == nil && digest != o.ETag {
		err = fmt.Errorf("%s was written again: %w", o.Key, fs.ErrNotExist)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	return file, "", nil
}

func (f *folder) open(name string) (*os.File, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // the file opened stays open
	return root.Open(name)
}

// digestOf is what news of a file are known by: the SHA-256 of its content, in hexadecimal.
func digestOf(file io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Settle implements broker.Objects: what lies beside the file is packed.
func (f *folder) Settle(ctx context.Context, _, key string, spec *dag.Job) error {
	return f.settle(ctx, filepath.Join(f.dir, filepath.Dir(filepath.FromSlash(key))), spec)
}

// settleFor is how long a file must be left alone before it is read: editors and copies write in pieces.
const settleFor = 300 * time.Millisecond

// watch tells of each file in the folder, those there at the start included, whenever its content changes.
func (f *folder) watch(ctx context.Context) error {
	return watchDir(ctx, f.log, f.dir, f.touched, func() bool { return f.scan(ctx) })
}

// touched has a file be told of again that is no job: what it was refused for may lie outside of it, so a touch is
// enough. Whoever removes the remark asks for it, too.
func (f *folder) touched(e fsnotify.Event) {
	name := filepath.Base(e.Name)
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		name = strings.TrimSuffix(name, push.RemarkSuffix)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.told[name]; t != nil && !t.job {
		delete(f.told, name)
	}
	if e.Name == "" {
		maps.DeleteFunc(f.told, func(_ string, t *told) bool { return !t.job })
	}
}

// watchDir calls look at first, and whenever something in a directory has changed and come to rest: again after a while
// if it says so. touched, which may be nil, is told of each change at once: the zero Event stands for any that were
// missed.
func watchDir(ctx context.Context, log *slog.Logger, dir string, touched func(fsnotify.Event),
	look func() (again bool)) error {
	if touched == nil {
		touched = func(fsnotify.Event) {}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer w.Close() //nolint:errcheck // only read
	if err := w.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	timer := time.NewTimer(0) // what is there already
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			log.Warn("watching a folder", "folder", dir, "err", err)
			touched(fsnotify.Event{})
			timer.Reset(settleFor) // an overflow: look at everything
		case e, ok := <-w.Events:
			if !ok {
				return nil
			}
			touched(e)
			timer.Reset(settleFor)
		case <-timer.C:
			if look() {
				timer.Reset(settleFor)
			}
		}
	}
}

// errUntold says that the broker could not be told of a file.
var errUntold = errors.New("the broker could not be told of it, and will be again")

// scan tells of what is new; unsettled says that a file is still being written, or was not told of.
func (f *folder) scan(ctx context.Context) (unsettled bool) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.log.Warn("reading the DAG folder", "err", err)
		return false
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !isDAG(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone
		}
		if time.Since(info.ModTime()) < settleFor {
			unsettled = true
			continue
		}
		if err := f.tell(ctx, e.Name(), info.Size()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Warn("a file in the DAG folder", "file", e.Name(), "err", err)
			unsettled = unsettled || errors.Is(err, errUntold) // nothing else would have it looked at again
		}
	}
	return unsettled
}

// isDAG says by its name whether a file may be a job.
func isDAG(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".gz")
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json", ".xml", ".dax", ".sbatch", ".slurm":
		return !strings.HasPrefix(name, ".")
	default:
		return false
	}
}

func (f *folder) tell(ctx context.Context, name string, size int64) error {
	file, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	digest, err := digestOf(file)
	if err != nil {
		return err
	}
	if !f.isNew(name, digest) {
		return nil
	}
	// Each time has an ID of its own, or the broker would not say a second time why a file is refused. The content is
	// the same job however often it is told of.
	id := fmt.Sprintf("object-%s-%x-%x", digest[:16], time.Now().UnixNano(), name)
	err = f.emit(ctx, id[:min(len(id), 200)], events.ObjectCreated{Bucket: f.bucketURL(), Key: name, ETag: digest,
		Size: size})
	if err != nil {
		f.mu.Lock()
		delete(f.told, name)
		f.mu.Unlock()
		return fmt.Errorf("%w: %w", errUntold, err)
	}
	return nil
}

// isNew says whether a file is to be told of. It is noted before that, as the broker may answer at once.
func (f *folder) isNew(name, digest string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.told[name]; t != nil && t.digest == digest {
		return false
	}
	f.told[name] = &told{digest: digest}
	return true
}

// rejected notes beside a file why it could not be read, where its author looks, unless what is there now is a job: the
// news are of what was there before.
func (f *folder) rejected(e events.DAGRejected) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.told[e.Key]; t != nil && t.job {
		return nil
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is held
	return root.WriteFile(e.Key+push.RemarkSuffix, []byte(e.Reason+"\n"), 0o600)
}

// accepted removes the remark about a file that has become a job, unless another content was told of since.
func (f *folder) accepted(_ context.Context, o events.ObjectCreated) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.told[o.Key]
	if o.Bucket != f.bucketURL() || t == nil || t.digest != o.ETag {
		return
	}
	t.job = true
	root, err := os.OpenRoot(f.dir)
	if err == nil {
		defer root.Close() //nolint:errcheck // nothing is held
		err = root.Remove(o.Key + push.RemarkSuffix)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("the remark about a file that is a job now stays", "file", o.Key, "err", err)
	}
}
