package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// lineEvery is the interval of the lines about a transfer that is not painted.
const lineEvery = 10 * time.Second

// Transfer shows the progress of a transfer: a bar on a terminal, otherwise regular lines. Except for Leave, only one
// goroutine may use it at a time.
type Transfer struct {
	mu     sync.Mutex
	left   bool
	out    io.Writer
	screen *screen // nil if lines are printed
	style  text.Style
	glyphs Glyphs
	now    func() time.Time

	what  string
	done  int64
	shown time.Time
}

// NewTransfer paints on terminal, or prints lines to out if terminal is nil.
func NewTransfer(terminal *os.File, out io.Writer, style text.Style, glyphs Glyphs, now func() time.Time) *Transfer {
	t := &Transfer{out: out, style: style, glyphs: glyphs, now: now}
	if terminal != nil {
		t.screen = &screen{out: terminal, tty: tty{terminal}}
	}
	return t
}

// Begin starts a new step, such as "packing code".
func (t *Transfer) Begin(what string) { t.what, t.done, t.shown = what, 0, t.now() }

// Add counts n more bytes, out of a total.
func (t *Transfer) Add(n, of int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	every := lineEvery
	if t.screen != nil {
		every = frameEvery
	}
	if t.left || of == 0 || t.now().Sub(t.shown) < every {
		return
	}
	t.shown = t.now()
	share := float64(t.done) / float64(of)
	label := fmt.Sprintf("%s of %s", text.Bytes(t.done), text.Bytes(of))
	if t.screen == nil {
		_, _ = fmt.Fprintf(t.out, "%s: %s\n", t.what, label)
		return
	}
	if !t.screen.enter() {
		return
	}
	const cells = 32
	full, empty := t.glyphs.bar(share, cells)
	width, _ := t.screen.tty.size()
	line := fmt.Sprintf("%s  %s%s  %s", t.what, t.style.Paint(text.Good, full), t.style.Paint(text.Faint, empty), label)
	t.screen.paint(text.Cut(line, width), width)
}

// Leave restores the terminal for good, because the process is about to exit.
func (t *Transfer) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	t.clear()
}

// Close erases the bar and restores the terminal.
func (t *Transfer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

func (t *Transfer) clear() {
	if t.screen != nil && t.screen.active {
		t.screen.paint("", 1<<10)
		_, _ = io.WriteString(t.screen.out, "\x1b[1A") // move up to the empty line
		t.screen.leave()
	}
}
