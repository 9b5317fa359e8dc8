package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// lineEvery is how often a transfer that is not painted says how far it is.
const lineEvery = 10 * time.Second

// Transfer shows how far something is that takes its time by its size: a bar on a terminal, a line now and then
// elsewhere. It is used by one goroutine at a time, but for Leave.
type Transfer struct {
	mu     sync.Mutex
	left   bool
	out    io.Writer
	screen *screen // nil for lines
	style  text.Style
	glyphs Glyphs
	now    func() time.Time

	what  string
	done  int64
	shown time.Time
}

// NewTransfer paints on a terminal, or writes lines where that is nil.
func NewTransfer(terminal *os.File, out io.Writer, style text.Style, glyphs Glyphs, now func() time.Time) *Transfer {
	t := &Transfer{out: out, style: style, glyphs: glyphs, now: now}
	if terminal != nil {
		t.screen = &screen{out: terminal, tty: tty{terminal}}
	}
	return t
}

// Begin says what is under way from now on, such as "packing code".
func (t *Transfer) Begin(what string) { t.what, t.done, t.shown = what, 0, t.now() }

// Add tells of n bytes more, of so many in all.
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

// Leave gives the terminal back for good, as the process is about to end.
func (t *Transfer) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	t.clear()
}

// Close gives the terminal back, without a trace of the bar.
func (t *Transfer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

func (t *Transfer) clear() {
	if t.screen != nil && t.screen.active {
		t.screen.paint("", 1<<10)
		_, _ = io.WriteString(t.screen.out, "\x1b[1A") // onto the line that is empty
		t.screen.leave()
	}
}
