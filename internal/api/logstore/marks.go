package logstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
)

// The marks of a log are in a file next to it, one after the other: the offset and the time in milliseconds since
// 1970, in 8 bytes each, big-endian. A log of an earlier version has no such file.
const (
	marksEnd  = ".times"
	markBytes = 16
	markPage  = 1024 // marks that are read at once
)

// appendMarks adds the marks of a log that are after its last one.
func (s *Store) appendMarks(file string, marks []wire.LogMark) (err error) {
	if len(marks) == 0 {
		return nil
	}
	f, err := s.root.OpenFile(file+marksEnd, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("logstore: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := markCount(f)
	if err != nil {
		return err
	}
	last := int64(-1)
	if n > 0 {
		m, err := readMarks(f, n-1, 1)
		if err != nil {
			return err
		}
		last = m[0].Offset
	}
	var out []byte
	for _, m := range marks {
		if m.Offset > last {
			out = binary.BigEndian.AppendUint64(out, uint64(m.Offset))         //nolint:gosec // not negative
			out = binary.BigEndian.AppendUint64(out, uint64(m.At.UnixMilli())) //nolint:gosec // read as int64
			last = m.Offset
		}
	}
	if _, err := f.WriteAt(out, int64(n)*markBytes); err != nil {
		return fmt.Errorf("logstore: %w", err)
	}
	return nil
}

// Marks returns marks from an offset on. See [api.Logs].
func (s *Store) Marks(_ context.Context, log api.Log, offset int64) ([]wire.LogMark, error) {
	file, err := fileOf(log)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(file + marksEnd)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	n, err := markCount(f)
	if err != nil {
		return nil, err
	}
	var failed error
	after := sort.Search(n, func(i int) bool {
		m, err := readMarks(f, i, 1)
		failed = errors.Join(failed, err)
		return err != nil || m[0].Offset > offset
	})
	if failed != nil {
		return nil, failed
	}
	from := max(after-1, 0)
	return readMarks(f, from, min(n-from, markPage))
}

func markCount(f *os.File) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("logstore: %w", err)
	}
	return int(info.Size() / markBytes), nil
}

func readMarks(f *os.File, from, n int) ([]wire.LogMark, error) {
	buf := make([]byte, n*markBytes)
	if _, err := f.ReadAt(buf, int64(from)*markBytes); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	marks := make([]wire.LogMark, n)
	for i := range marks {
		at := buf[i*markBytes:]
		ms := int64(binary.BigEndian.Uint64(at[8:]))                                                      //nolint:gosec // as written
		marks[i] = wire.LogMark{Offset: int64(binary.BigEndian.Uint64(at)), At: time.UnixMilli(ms).UTC()} //nolint:gosec // as written
	}
	return marks, nil
}
