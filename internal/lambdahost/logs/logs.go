// Package logs stores the output of tasks for all functions of a deployment on AWS.
package logs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/base/names"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// MaxLogBytes is the maximum size of one log.
const MaxLogBytes = 256 << 20

// Objects are the objects of a bucket. Package logbucket has those of S3.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	// ReadAt reads from offset to the end of p or of the object. It reads at least one byte, or fails.
	ReadAt(ctx context.Context, key string, offset int64, p []byte) (int, error)
	// RemoveAll removes the objects below a prefix.
	RemoveAll(ctx context.Context, prefix string) error
}

// Logs stores the output of tasks. Each piece is a record of the table, with its offset as key. The record contains
// small pieces; larger ones are objects below logs/ of the work bucket. A kilobyte in the table costs an eighth of an
// object, and finding the end of a log with records costs less than listing objects. A record is written once, so two
// agents, or two attempts to write, cannot corrupt a log.
type Logs struct {
	Store   store.Store
	Objects Objects
	// Look is how often Wait checks; 1 s when 0.
	Look time.Duration

	mu   sync.Mutex
	ends map[string]int64 // ends of the logs written by this sandbox, to avoid queries
}

const (
	endsMost = 4096    // maximum number of remembered ends
	inTable  = 7 << 10 // bytes of a record up to which it costs no more than an object
	// pageOfPieces is the page size for reading pieces: one read does not need the whole log.
	pageOfPieces = 64
)

// prefix returns the partition of a log's records, which is also the prefix of its objects' names.
func prefix(l api.Log) (string, error) {
	if !plain(l.Job) || !plain(l.Attempt) || l.Rank < 0 {
		return "", fmt.Errorf("logs: %w: %.64q %.64q %d", api.ErrNoLog, l.Job, l.Attempt, l.Rank)
	}
	return path.Join("logs", l.Job, l.Attempt, "rank"+strconv.Itoa(l.Rank)) + "/", nil
}

func plain(name string) bool {
	return names.Made(name, 1, 200, names.Alnum+".-_") && name[0] != '.'
}

// piece returns the sort key of the piece at an offset. Keys sort like offsets.
func piece(offset int64) string { return fmt.Sprintf("%016x", offset) }

// Append implements api.Logs.
func (l *Logs) Append(ctx context.Context, log api.Log, offset int64, data []byte, marks ...wire.LogMark) error {
	at, err := prefix(log)
	if err != nil {
		return err
	}
	end, known := l.end(at)
	if offset != end || !known && offset > 0 { // for offset 0, the write itself shows whether the log exists
		if end, err = l.size(ctx, at, 0); err != nil {
			return err
		}
	}
	switch {
	case end != offset:
		return &api.OffsetError{Want: end}
	case len(data) == 0 || end >= MaxLogBytes: // beyond the limit data is accepted and dropped
		return nil
	}
	body, err := l.put(ctx, at, offset, data)
	if err != nil {
		return err
	}
	body = withMarks(at, offset, marks, body)
	err = l.Store.Commit(ctx, store.Tx{Writes: []store.Write{{
		Key: store.Key{Partition: at, Sort: piece(offset)}, Op: store.Put, Expect: store.Absent, Body: body,
	}}})
	if errors.Is(err, store.ErrConflict) { // already written, by a call whose response was lost or by another sandbox
		l.forget(at)
		if end, err = l.size(ctx, at, 0); err == nil {
			err = &api.OffsetError{Want: end}
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("logs: %s: %w", at, err)
	}
	l.note(at, offset+int64(len(data)))
	return nil
}

// put makes the body of a piece's record, and stores a large piece as an object. Part of the object's name is derived
// from the content, so an object left by an incomplete attempt does no harm.
func (l *Logs) put(ctx context.Context, at string, offset int64, data []byte) ([]byte, error) {
	if body := seal(at, data); len(body) <= inTable {
		return body, nil
	}
	sum := sha256.Sum256(data)
	end := fmt.Sprintf("%016x-%x", offset, sum[:8])
	if err := l.Objects.Put(ctx, at+end, data); err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	return fmt.Appendf([]byte{textObject}, "%d %s", len(data), end), nil
}

func (l *Logs) end(at string) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, ok := l.ends[at]
	return end, ok
}

func (l *Logs) note(at string, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil || len(l.ends) >= endsMost {
		l.ends = map[string]int64{}
	}
	l.ends[at] = end
}

func (l *Logs) forget(at string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, at)
}

// each calls do for the pieces of a log in order, in pages, until do has seen enough. It begins at or before the piece
// that contains the offset; since an agent limits the size of a piece, that is shortly before the offset.
func (l *Logs) each(ctx context.Context, at string, offset int64, page int,
	do func(part) (enough bool, err error)) error {
	after := ""
	if from := offset - wire.MaxLogChunk; from > 0 {
		after = piece(from)
	}
	for more := true; more; {
		var records []store.Record
		var err error
		if records, more, err = l.Store.Query(ctx, at, "", store.Page{After: after, Limit: page}); err != nil {
			return fmt.Errorf("logs: %s: %w", at, err)
		}
		for i := range records {
			after = records[i].Key.Sort
			p, err := partOf(at, &records[i])
			if err != nil {
				return err
			}
			if enough, err := do(p); err != nil || enough {
				return err
			}
		}
	}
	return nil
}

// size returns the end of a log, 0 if there is none. The caller knows that it is at or after offset.
func (l *Logs) size(ctx context.Context, at string, offset int64) (end int64, err error) {
	err = l.each(ctx, at, offset, 0, func(p part) (bool, error) {
		end = p.offset + p.size
		return false, nil
	})
	if err == nil && end > 0 {
		l.note(at, end)
	}
	return end, err
}

// Size implements api.Logs.
func (l *Logs) Size(ctx context.Context, log api.Log) (int64, error) {
	at, err := prefix(log)
	if err != nil {
		return 0, err
	}
	n, err := l.size(ctx, at, 0)
	if err == nil && n == 0 {
		return 0, fmt.Errorf("logs: %w", api.ErrNoLog)
	}
	return n, err
}

// Read implements api.Logs.
func (l *Logs) Read(ctx context.Context, log api.Log, offset int64, p []byte) (int, error) {
	at, err := prefix(log)
	if err != nil {
		return 0, err
	}
	n, any := 0, false
	err = l.each(ctx, at, offset, pageOfPieces, func(o part) (enough bool, err error) {
		any = true
		begin := offset + int64(n)
		if begin < o.offset || n == len(p) || n > 0 && o.key != "" { // an object is read separately
			return true, nil
		}
		if begin < o.offset+o.size {
			var more int
			more, err = l.read(ctx, o, begin-o.offset, p[n:])
			n += more
		}
		return err != nil || n > 0 && o.key != "", err
	})
	switch {
	case err != nil || n > 0:
		return n, err
	case !any && offset == 0:
		return 0, fmt.Errorf("logs: %w", api.ErrNoLog)
	}
	return 0, io.EOF
}

func (l *Logs) read(ctx context.Context, o part, skip int64, p []byte) (int, error) {
	if o.key == "" {
		text, err := o.open()
		if err != nil {
			return 0, err
		}
		return copy(p, text[skip:]), nil
	}
	n, err := l.Objects.ReadAt(ctx, o.key, skip, p[:min(int64(len(p)), o.size-skip)])
	if err != nil {
		return n, fmt.Errorf("logs: %w", err)
	}
	return n, nil
}

// Marks implements api.Logs. Each piece has the mark of its beginning.
func (l *Logs) Marks(ctx context.Context, log api.Log, offset int64) (marks []wire.LogMark, err error) {
	at, err := prefix(log)
	if err != nil {
		return nil, err
	}
	err = l.each(ctx, at, offset, pageOfPieces, func(o part) (enough bool, err error) {
		if o.offset+o.size > offset {
			marks = append(marks, o.marks...)
		} else if len(o.marks) > 0 {
			marks = o.marks[len(o.marks)-1:]
		}
		return len(marks) >= marksPage, nil
	})
	return wire.MarksAt(marks, offset), err
}

// marksPage is the number of marks after which no more pieces are read.
const marksPage = 1024

// Wait implements api.Logs. It polls, because other sandboxes write.
func (l *Logs) Wait(ctx context.Context, log api.Log, offset int64) error {
	at, err := prefix(log)
	if err != nil {
		return err
	}
	look := l.Look
	if look <= 0 {
		look = time.Second
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if n, err := l.size(ctx, at, offset); err != nil || n > offset {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
