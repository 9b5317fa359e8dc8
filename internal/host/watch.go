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
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// folder is the DAG bucket of a local broker: a directory that is watched.
type folder struct {
	dir  string
	emit func(ctx context.Context, id string, data events.Data) error
	log  *slog.Logger
	// packFiles replaces local paths of a job, relative to dir, by packs.
	packFiles func(ctx context.Context, dir string, spec *dag.Job) error

	mu   sync.Mutex
	told map[string]*told // the last report to the broker, by file name
}

// told is the content of a file that was reported to the broker.
type told struct {
	digest string // of the content
	job    bool   // it has become a job
}

// bucketURL returns the URL of the folder in events.
func (f *folder) bucketURL() string { return (&url.URL{Scheme: "file", Path: f.dir}).String() }

// Open implements broker.Objects. A key never leads out of the folder. If the file has changed since the event, it
// counts as missing, because the new content has its own event. Otherwise the new content would become two jobs.
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
		err = fmt.Errorf("%s has changed: %w", o.Key, fs.ErrNotExist)
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

// digestOf returns the SHA-256 of a file's content in hexadecimal, by which events identify it.
func digestOf(file io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Settle implements broker.Objects: it packs the files next to the job file.
func (f *folder) Settle(ctx context.Context, _, key string, spec *dag.Job) error {
	return f.packFiles(ctx, filepath.Join(f.dir, filepath.Dir(filepath.FromSlash(key))), spec)
}

// settleFor is the time for which a file must be unchanged before it is read, because editors and copies write in
// pieces.
const settleFor = 300 * time.Millisecond

// watch reports each file in the folder to the broker, at the start and whenever its content changes.
func (f *folder) watch(ctx context.Context) error {
	return watchDir(ctx, f.log, f.dir, f.touched, func() bool { return f.scan(ctx) })
}

// touched reports a rejected file again after a touch, or after the removal of the file with the error. The cause of
// the rejection may have been outside the file.
func (f *folder) touched(e fsnotify.Event) {
	name := filepath.Base(e.Name)
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		name = strings.TrimSuffix(name, push.ErrorSuffix)
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

// watchDir calls look at the start, and whenever something in a directory has changed and then stayed unchanged for
// settleFor. If look returns true, it is called again after that time. For each change, watchDir calls touched (which
// may be nil) at once. The zero Event stands for missed changes.
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
	timer := time.NewTimer(0) // for existing files
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

// errUntold means that a file could not be reported to the broker.
var errNotReported = errors.New("the broker could not be notified; this will be retried")

// scan reports new files. It returns true if a file is still being written or could not be reported.
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
		if err := f.submit(ctx, e.Name(), info.Size()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Warn("a file in the DAG folder", "file", e.Name(), "err", err)
			unsettled = unsettled || errors.Is(err, errNotReported) // nothing else triggers another scan
		}
	}
	return unsettled
}

// isDAG reports whether a file may be a job, by its name.
func isDAG(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".gz")
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json", ".xml", ".dax", ".sbatch", ".slurm", ".sh":
		return !strings.HasPrefix(name, ".")
	default:
		return false
	}
}

func (f *folder) submit(ctx context.Context, name string, size int64) error {
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
	if strings.EqualFold(filepath.Ext(name), ".sh") {
		if batch, err := isBatchScript(file); err != nil || !batch {
			f.log.Warn("a script in the DAG folder is no job: it has no #SBATCH lines", "file", name, "err", err)
			return nil
		}
	}
	// Each report has a unique ID. Otherwise the broker would not explain the rejection of a file a second time. The
	// same content is the same job, however often it is reported.
	id := fmt.Sprintf("object-%s-%x-%x", digest[:16], time.Now().UnixNano(), name)
	err = f.emit(ctx, id[:min(len(id), 200)], events.ObjectCreated{Bucket: f.bucketURL(), Key: name, ETag: digest,
		Size: size})
	if err != nil {
		f.mu.Lock()
		delete(f.told, name)
		f.mu.Unlock()
		return fmt.Errorf("%w: %w", errNotReported, err)
	}
	return nil
}

// isBatchScript reports whether a shell script has #SBATCH lines. Others may be programs of the jobs in the folder.
func isBatchScript(file io.ReadSeeker) (bool, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(file, dag.MaxScriptBytes))
	return slurm.IsScript(text), err
}

// isNew reports whether a file must be reported, and records the report. It is recorded before the report is sent,
// because the broker may answer at once.
func (f *folder) isNew(name, digest string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.told[name]; t != nil && t.digest == digest {
		return false
	}
	f.told[name] = &told{digest: digest}
	return true
}

// rejected writes the reason of a rejection next to the file, unless the file has since become a job: the event is
// then about earlier content.
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
	return root.WriteFile(e.Key+push.ErrorSuffix, []byte(e.Reason+"\n"), 0o600)
}

// accepted removes the error file of a job file that has become a job, unless other content was reported since.
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
		err = root.Remove(o.Key + push.ErrorSuffix)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("the error file of an accepted job file could not be removed", "file", o.Key, "err", err)
	}
}
