package host

import (
	"context"
	"log/slog"

	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// diskLog logs only the first of the errors of a full disk, with a remedy, until the disk has room again. Otherwise
// each record, log and clock mark that cannot be written would be one more error.
type diskLog struct {
	slog.Handler
	disk *diskGuard
}

// Handle implements slog.Handler.
func (l diskLog) Handle(ctx context.Context, r slog.Record) error {
	if !aboutFullDisk(r) {
		return l.Handler.Handle(ctx, r)
	}
	if l.disk.reported.Swap(true) {
		return nil
	}
	what, hint := FullDisk(l.disk.dir)
	once := slog.NewRecord(r.Time, slog.LevelError, what, r.PC)
	once.AddAttrs(slog.String("hint", hint))
	return l.Handler.Handle(ctx, once)
}

// aboutFullDisk reports whether a record has the error of a full disk.
func aboutFullDisk(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		is = ok && files.NoSpace(err)
		return !is
	})
	return is
}

// WithAttrs implements slog.Handler.
func (l diskLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return diskLog{l.Handler.WithAttrs(attrs), l.disk}
}

// WithGroup implements slog.Handler.
func (l diskLog) WithGroup(name string) slog.Handler {
	return diskLog{l.Handler.WithGroup(name), l.disk}
}
