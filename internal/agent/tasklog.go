package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/secret"
)

// tailBytes is the maximum size of the end of a phase's log in the message of its failure.
const tailBytes = 2 << 10

// taskLog is the log of an attempt: the output of its scripts to both streams, in the order of the writes. It is
// stored in a file and sent from there, so that neither an unreachable broker nor a task with much output uses
// memory.
type taskLog struct {
	client  *client
	attempt string
	limit   int64
	mask    *secret.Mask // limit for the task's output

	mu        sync.Mutex
	file      *os.File
	size      int64 // in the file
	full      bool
	tail      []byte // the last bytes since the phase began
	marks     []wire.LogMark
	sent      int64 // accepted by the broker
	err       error // why sending ended
	changed   chan struct{}
	hurried   bool
	hurry     chan struct{} // closed when last waits for the rest
	takeLimit int64         // last takes the rest if it has at most this many bytes
	taken     bool          // last has taken it: nothing more is sent
	// Unsent log is on its way: onLoan with a report, shipping in a separate call.
	onLoan, shipping bool
}

func newTaskLog(path string, c *client, attempt string, limit int64, m *secret.Mask) (*taskLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // below the agent's own directory
	if err != nil {
		return nil, err
	}
	return &taskLog{client: c, attempt: attempt, limit: limit, mask: m, file: f, changed: make(chan struct{}),
		hurry: make(chan struct{})}, nil
}

// Write appends to the log. It never fails, so that the log cannot make a task fail: it drops data that exceeds the
// limit or does not fit on the disk.
func (l *taskLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p[max(0, len(p)-tailBytes):]...)
	l.tail = l.tail[max(0, len(l.tail)-tailBytes):]
	if l.full {
		return len(p), nil
	}
	keep := p
	if room := l.limit - l.size; int64(len(p)) > room {
		l.full = true
		keep = fmt.Appendf(p[:room:room], "\ntradewind: the log reached %d bytes; the rest is not kept\n", l.limit)
	}
	l.mark(time.Now())
	n, err := l.file.Write(keep)
	l.size += int64(n)
	if err != nil {
		l.full = true
	}
	l.broadcast()
	return len(p), nil
}

// Marks are kept for output that was written at least markEvery after the previous mark, and at most maxMarks of them,
// so that a task that prints all the time does not take memory.
const (
	markEvery = 100 * time.Millisecond
	maxMarks  = 1 << 16
)

// mark records the time at which the data of the next write was read. The caller holds mu.
func (l *taskLog) mark(now time.Time) {
	if n := len(l.marks); n > 0 && now.Sub(l.marks[n-1].At).Abs() < markEvery {
		return
	}
	if len(l.marks) == maxMarks { // half of them are enough
		for i := range maxMarks / 2 {
			l.marks[i] = l.marks[2*i]
		}
		l.marks = l.marks[:maxMarks/2]
	}
	l.marks = append(l.marks, wire.LogMark{Offset: l.size, At: now})
}

// times returns when the n bytes from an offset on were written, in the format of the wire.
func (l *taskLog) times(from int64, n int) string {
	if n == 0 {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	compare := func(m wire.LogMark, offset int64) int { return cmp.Compare(m.Offset, offset) }
	first, _ := slices.BinarySearchFunc(l.marks, from, compare)
	marks := wire.MarksFrom(l.marks[max(first-1, 0):], from)
	end, _ := slices.BinarySearchFunc(marks, from+int64(n), compare)
	marks = marks[:end]
	step := (len(marks) + wire.MaxLogMarks - 1) / wire.MaxLogMarks
	var some []wire.LogMark
	for i := 0; i < len(marks); i += step {
		some = append(some, marks[i])
	}
	return wire.FormatMarks(from, some)
}

// note writes a line from the agent to the log.
func (l *taskLog) note(msg string) { _, _ = fmt.Fprintf(l, "tradewind: %s\n", l.mask.String(msg)) }

// phase clears the tail, so that a failure shows only lines of the current phase.
func (l *taskLog) phase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = l.tail[:0]
}

// lastLines returns the last whole lines of the phase, at most tailBytes of them, as valid UTF-8.
func (l *taskLog) lastLines() string {
	l.mu.Lock()
	tail := string(l.tail)
	l.mu.Unlock()
	if len(tail) >= tailBytes { // it may begin anywhere: skip to the next line, or at least to the next character
		if _, after, ok := strings.Cut(tail, "\n"); ok && after != "" {
			tail = after
		}
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(tail, "\uFFFD"))
}

// pipe returns the end of a pipe to which a task writes, and a channel that is closed when every process has closed
// the pipe and everything that was written is in the log.
func (l *taskLog) pipe() (*os.File, <-chan struct{}, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close() //nolint:errcheck // only read
		to := l.mask.Writer(l)
		_, _ = io.Copy(to, r)
		_ = to.Flush() // Write never fails
	}()
	return w, done, nil
}

// firstPause is the maximum time before the first piece of a log is sent. All output of a short task fits in this one
// piece, and users soon see something of a long task.
const firstPause = 15 * time.Second

// ship sends the log as it grows, until ctx ends, but nothing before quiet has passed. The pause between two pieces
// doubles each time, up to most. It returns an error only if the broker's answer is final, because a lost log must
// not end a task.
func (l *taskLog) ship(ctx context.Context, pause, most, quiet time.Duration) error {
	piece := make([]byte, wire.MaxLogChunk)
	if l.await(ctx) != nil {
		return nil
	}
	l.pauseOrHurry(ctx, max(min(pause, firstPause), quiet))
	for {
		if l.await(ctx) != nil {
			return nil
		}
		if l.handOver() {
			return nil
		}
		offset, begun := l.begin()
		if !begun {
			continue
		}
		n, err := l.file.ReadAt(piece, offset)
		if n == 0 {
			l.progress(offset, nil)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil // the disk lost the log
			}
			continue
		}
		err = l.client.logs(ctx, l.attempt, offset, piece[:n], l.times(offset, n))
		var resume *resumeError
		gather := n < len(piece) // a full piece means that more is already waiting
		switch {
		case errors.As(err, &resume):
			l.progress(min(resume.offset, offset+int64(n)), nil)
			gather = true
		case err != nil:
			l.progress(offset, err)
			if isFinal(err) {
				return err
			}
			return nil
		default:
			l.progress(offset+int64(n), nil)
		}
		if gather {
			l.pauseOrHurry(ctx, pause)
			pause = max(pause, min(2*pause, most))
		}
	}
}

// pauseOrHurry waits while some log gathers. It returns early if last waits for the rest.
func (l *taskLog) pauseOrHurry(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.hurry:
	case <-ctx.Done():
	}
}

// await waits until there is something to send.
func (l *taskLog) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		sent, size, changed, onLoan := l.sent, l.size, l.changed, l.onLoan
		l.mu.Unlock()
		if sent < size && !onLoan {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin marks the unsent log as on its way, unless a report carries it, and returns its offset.
func (l *taskLog) begin() (offset int64, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shipping = !l.onLoan
	return l.sent, l.shipping
}

func (l *taskLog) progress(sent int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.err, l.shipping = sent, err, false
	l.broadcast()
}

// last waits until the whole log is accepted, or sending has failed, or at most limit bytes are unsent. In the last
// case it returns these bytes with their offset, and ship sends nothing more.
func (l *taskLog) last(ctx context.Context, limit int64) (from int64, rest []byte) {
	l.mu.Lock()
	if l.takeLimit = limit; !l.hurried {
		l.hurried = true
		close(l.hurry)
	}
	l.mu.Unlock()
	for {
		l.mu.Lock()
		taken, done, changed := l.taken, l.sent >= l.size || l.err != nil, l.changed
		if done = done || ctx.Err() != nil; done {
			l.takeLimit = 0 // ship sends everything that is written from now on
		}
		l.mu.Unlock()
		switch {
		case taken:
			return l.left()
		case done:
			return 0, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// handOver leaves the unsent log to last, if it is short enough.
func (l *taskLog) handOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size-l.sent > l.takeLimit {
		return false
	}
	l.taken = true
	l.broadcast()
	return true
}

// lend returns the unsent log for a report to carry, if it has at most most bytes and is not already on its way. ship
// sends nothing until lent is called.
func (l *taskLog) lend(most int64) (from int64, piece []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size-l.sent > most || l.taken || l.shipping {
		return 0, nil
	}
	l.onLoan = true
	return l.unsent()
}

// endLoan ends a loan. accepted reports whether the broker now has the log up to offset to.
func (l *taskLog) endLoan(to int64, accepted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onLoan && accepted {
		l.sent = max(l.sent, to)
	}
	l.onLoan = false
	l.broadcast()
}

// left returns the part of the log that the broker has not accepted.
func (l *taskLog) left() (from int64, rest []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsent()
}

// unsent returns the part of the log that the broker has not accepted. The caller holds mu.
func (l *taskLog) unsent() (from int64, rest []byte) {
	rest = make([]byte, l.size-l.sent)
	n, _ := l.file.ReadAt(rest, l.sent)
	return l.sent, rest[:n]
}

// sendFrom sends the log from an offset to its end.
func (l *taskLog) sendFrom(ctx context.Context, offset int64) error {
	piece := make([]byte, wire.MaxLogChunk)
	for {
		n, err := l.file.ReadAt(piece, offset)
		if n == 0 {
			return err
		}
		if err = l.client.logs(ctx, l.attempt, offset, piece[:n], l.times(offset, n)); err != nil {
			return err
		}
		offset += int64(n)
	}
}

func (l *taskLog) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}
