// Package logstore stores the output of tasks in files below one folder: an implementation of [api.Logs] for a single
// process. Each job has a folder, with one file for each node of each attempt.
//
// A log's size is limited. Output beyond the limit is accepted and dropped, and a last line of the log states this.
// The task is not affected.
package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
)

// DefaultMaxBytes is the default limit for one node's output.
const DefaultMaxBytes = 64 << 20

// notice is the last line of a truncated log. Its file exceeds the limit by this text.
const notice = "\n[tradewind: the log exceeds the size limit; the rest was dropped]\n"

// Store stores logs in files. Make one with New.
type Store struct {
	root *os.Root
	max  int64

	mu   sync.Mutex
	open map[string]*entry
}

// entry is a log that is being appended to or waited for.
type entry struct {
	mu    sync.Mutex
	grown chan struct{} // closed and replaced when the log grows
	users int           // guarded by Store.mu
}

// New opens a folder, and creates it if it is missing. maxBytes limits the size of each log; 0 is DefaultMaxBytes.
func New(dir string, maxBytes int64) (*Store, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	return &Store{root: root, max: maxBytes, open: map[string]*entry{}}, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

var _ api.Logs = (*Store)(nil)

// fileOf returns the name of a log's file. Names consist of letters, digits, dots, dashes and underscores and do not
// begin with a dot, so they cannot be paths or hidden files; for any other name it returns api.ErrNoLog.
func fileOf(log api.Log) (string, error) {
	if !plain(log.Job) || !plain(log.Attempt) || log.Rank < 0 {
		return "", fmt.Errorf("logstore: %w: %.64q %.64q %d", api.ErrNoLog, log.Job, log.Attempt, log.Rank)
	}
	return path.Join(log.Job, fmt.Sprintf("%s.rank%d.log", log.Attempt, log.Rank)), nil
}

// maxName leaves room for the rank in a file name of 255 bytes.
const maxName = 200

func plain(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}) < 0
}

// use returns the entry of a log; the caller releases it with done.
func (s *Store) use(file string) (e *entry, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.open[file]
	if !ok {
		e = &entry{grown: make(chan struct{})}
		s.open[file] = e
	}
	e.users++
	return e, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.users--; e.users == 0 {
			delete(s.open, file)
		}
	}
}

// Append adds data at an offset. See [api.Logs].
func (s *Store) Append(ctx context.Context, log api.Log, offset int64, data []byte, marks ...wire.LogMark) error {
	file, err := fileOf(log)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e, done := s.use(file)
	defer done()
	e.mu.Lock()
	defer e.mu.Unlock()
	grew, err := s.append(file, offset, data)
	if grew {
		err = errors.Join(err, s.appendMarks(file, marks))
		close(e.grown)
		e.grown = make(chan struct{})
	}
	return err
}

func (s *Store) append(file string, offset int64, data []byte) (grew bool, err error) {
	if err := s.root.MkdirAll(path.Dir(file), 0o700); err != nil {
		return false, fmt.Errorf("logstore: %w", err)
	}
	f, err := s.root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("logstore: %w", err)
	}
	defer func() {
		if cerr := f.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("logstore: %w", cerr)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("logstore: %w", err)
	}
	size := info.Size()
	switch {
	case size > s.max && offset >= s.max:
		return false, nil // already truncated: drop the data
	case size > s.max:
		return false, &api.OffsetError{Want: s.max}
	case offset != size:
		return false, &api.OffsetError{Want: size}
	}
	if room := s.max - size; int64(len(data)) > room {
		data = append(data[:room:room], notice...)
	}
	if len(data) == 0 {
		return false, nil
	}
	n, err := f.Write(data)
	if err != nil {
		return n > 0, fmt.Errorf("logstore: %w", err)
	}
	return true, nil
}

// Size returns the number of bytes that can be read. See [api.Logs].
func (s *Store) Size(_ context.Context, log api.Log) (int64, error) {
	file, err := fileOf(log)
	if err != nil {
		return 0, err
	}
	info, err := s.root.Stat(file)
	if err != nil {
		return 0, missing(err)
	}
	return info.Size(), nil
}

// Read reads from an offset on. See [api.Logs].
func (s *Store) Read(_ context.Context, log api.Log, offset int64, p []byte) (int, error) {
	file, err := fileOf(log)
	if err != nil {
		return 0, err
	}
	f, err := s.root.Open(file)
	if err != nil {
		return 0, missing(err)
	}
	defer f.Close() //nolint:errcheck // read only
	n, err := f.ReadAt(p, offset)
	switch {
	case n > 0:
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		return 0, io.EOF
	default:
		return 0, fmt.Errorf("logstore: %w", err)
	}
}

// missing converts the error for a missing file to api.ErrNoLog.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("logstore: %w", api.ErrNoLog)
	}
	return fmt.Errorf("logstore: %w", err)
}

// Wait returns when a log may have grown beyond offset. See [api.Logs].
func (s *Store) Wait(ctx context.Context, log api.Log, offset int64) error {
	file, err := fileOf(log)
	if err != nil {
		return err
	}
	e, done := s.use(file)
	defer done()
	e.mu.Lock()
	grown := e.grown
	e.mu.Unlock()
	size, err := s.Size(ctx, log)
	switch {
	case err == nil && size > offset:
		return nil
	case err != nil && !errors.Is(err, api.ErrNoLog):
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-grown:
		return nil
	}
}

// ExpireLogs does nothing: RemoveLogs removes them in time. See [broker.Logs].
func (s *Store) ExpireLogs(context.Context, string, []broker.LogOf, time.Time) error { return nil }

// RemoveLogs removes the logs of a job, which are one folder. See [broker.Logs].
func (s *Store) RemoveLogs(_ context.Context, job string, _ []broker.LogOf) error {
	return s.Remove(job)
}

// Remove removes the logs of a job. It is not an error if there are none.
func (s *Store) Remove(job string) error {
	if !plain(job) {
		return nil
	}
	if err := s.root.RemoveAll(job); err != nil {
		return fmt.Errorf("logstore: %w", err)
	}
	return nil
}
