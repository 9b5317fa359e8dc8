package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tradewind-broker/tradewind/pkg/agent/mask"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// tailBytes of a phase's log go into the message of its failure.
const tailBytes = 2 << 10

// taskLog is the log of an attempt: what its scripts write, on both streams in the order written, kept in a file
// and sent from there, so that neither a silent broker nor a loud task takes memory.
type taskLog struct {
	client  *client
	attempt string
	limit   int64
	mask    *mask.Mask // of what a task prints

	mu      sync.Mutex
	file    *os.File
	size    int64 // in the file
	full    bool
	tail    []byte // the last bytes since the phase began
	sent    int64  // accepted by the broker
	err     error  // that ended sending
	changed chan struct{}
	hurried bool
	hurry   chan struct{} // closed when somebody waits for the rest
	take    int64         // up to so many bytes are for who waits for the rest
	taken   bool          // they are: nothing is sent any more
	// What is to be sent is on its way: onLoan with a report, shipping by itself.
	onLoan, shipping bool
}

func newTaskLog(path string, c *client, attempt string, limit int64, m *mask.Mask) (*taskLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // below the agent's own directory
	if err != nil {
		return nil, err
	}
	return &taskLog{client: c, attempt: attempt, limit: limit, mask: m, file: f, changed: make(chan struct{}),
		hurry: make(chan struct{})}, nil
}

// Write appends to the log. It never fails a task: what is over the limit, or what the disk does not take, is left out.
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
	n, err := l.file.Write(keep)
	l.size += int64(n)
	if err != nil {
		l.full = true
	}
	l.broadcast()
	return len(p), nil
}

// note writes a line of the agent's own.
func (l *taskLog) note(msg string) { _, _ = fmt.Fprintf(l, "tradewind: %s\n", l.mask.String(msg)) }

// phase forgets the tail, so that a failure shows only lines of its own phase.
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
	if len(tail) >= tailBytes { // it begins anywhere: with the next line, or at least the next character
		if _, after, ok := strings.Cut(tail, "\n"); ok && after != "" {
			tail = after
		}
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(tail, "\uFFFD"))
}

// pipe returns the end that a task writes to, and a channel that is closed when all that was written has been read,
// after every process has closed it.
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
		_ = to.Flush() // the log takes all
	}()
	return w, done, nil
}

// firstPause bounds how long the first piece of a log gathers: what a short task writes is one piece, and of a long one
// something is soon to be seen.
const firstPause = 15 * time.Second

// ship sends the log as it grows, until ctx ends, with a pause between pieces that doubles from one to the next up to
// most. It returns an error only when the broker has had the last word; losing a log is no reason to lose a task.
func (l *taskLog) ship(ctx context.Context, pause, most time.Duration) error {
	piece := make([]byte, wire.MaxLogChunk)
	if l.await(ctx) != nil {
		return nil
	}
	l.rest(ctx, min(pause, firstPause))
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
				return nil // the disk lost it
			}
			continue
		}
		err = l.client.logs(ctx, l.attempt, offset, piece[:n])
		var resume *resumeError
		gather := n < len(piece) // else there is more already
		switch {
		case errors.As(err, &resume):
			l.progress(min(resume.offset, offset+int64(n)), nil)
			gather = true
		case err != nil:
			l.progress(offset, err)
			if lastWord(err) {
				return err
			}
			return nil
		default:
			l.progress(offset+int64(n), nil)
		}
		if gather {
			l.rest(ctx, pause)
			pause = max(pause, min(2*pause, most))
		}
	}
}

// rest lets some log gather, unless somebody waits for it.
func (l *taskLog) rest(ctx context.Context, d time.Duration) {
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

// begin marks what is to be sent as on its way, if it is not, and returns its offset.
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

// last waits until all of the log is accepted or none of it will be any more, or until what is left of it is at most
// limit bytes: those it returns, with their offset, and they are not sent any more.
func (l *taskLog) last(ctx context.Context, limit int64) (from int64, rest []byte) {
	l.mu.Lock()
	if l.take = limit; !l.hurried {
		l.hurried = true
		close(l.hurry)
	}
	l.mu.Unlock()
	for {
		l.mu.Lock()
		taken, done, changed := l.taken, l.sent >= l.size || l.err != nil, l.changed
		if done = done || ctx.Err() != nil; done {
			l.take = 0 // what is written from now on is sent as before
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

// handOver leaves what is to be sent to who waits for the rest, if it is little enough.
func (l *taskLog) handOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size-l.sent > l.take {
		return false
	}
	l.taken = true
	l.broadcast()
	return true
}

// lend gives what is to be sent to a report that takes it along, if it is at most so many bytes and not on its way
// already. Nothing is sent until the report is lent no more.
func (l *taskLog) lend(most int64) (from int64, piece []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size-l.sent > most || l.taken || l.shipping {
		return 0, nil
	}
	l.onLoan = true
	return l.unsent()
}

// lent notes whether the broker has what was lent, up to an offset.
func (l *taskLog) lent(to int64, accepted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onLoan && accepted {
		l.sent = max(l.sent, to)
	}
	l.onLoan = false
	l.broadcast()
}

// left is what has not been accepted.
func (l *taskLog) left() (from int64, rest []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsent()
}

// unsent is what has not been accepted; mu is held.
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
		if err = l.client.logs(ctx, l.attempt, offset, piece[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
}

func (l *taskLog) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}
