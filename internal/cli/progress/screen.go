package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// screen paints pictures of a few lines over each other, at the end of a terminal's output. The cursor stays on the
// line below the picture.
type screen struct {
	out     io.Writer
	tty     terminal
	active  bool     // we control the terminal
	painted []string // lines of the last picture
}

// terminal is the part of a terminal, in addition to writing, that a screen needs.
type terminal interface {
	// foreground reports whether this program has the terminal.
	foreground() bool
	// quiet turns the echo of input off, or on again.
	quiet(on bool)
	// size returns cells and lines.
	size() (width, height int)
}

// enter takes the terminal, if it is available.
func (s *screen) enter() bool {
	if !s.tty.foreground() {
		s.active, s.painted = false, nil
		return false
	}
	if !s.active {
		s.active, s.painted = true, nil
		s.tty.quiet(true)
		_, _ = io.WriteString(s.out, ansi.HideCursor)
	}
	return true
}

// leave restores the terminal.
func (s *screen) leave() {
	if !s.active {
		return
	}
	s.active, s.painted = false, nil
	_, _ = io.WriteString(s.out, ansi.ShowCursor)
	s.tty.quiet(false)
}

// paint replaces the last picture. No line may be longer than width.
func (s *screen) paint(picture string, width int) {
	lines := strings.Split(picture, "\n")
	var b bytes.Buffer
	// Terminals that support synchronized output show nothing before the picture is complete.
	b.WriteString(ansi.SetModeSynchronizedOutput)
	if up := s.rows(width); up > 0 {
		b.WriteString(ansi.CursorUp(up))
	}
	for _, line := range lines {
		// Erase before writing: a line that fills the width leaves the cursor on its last cell.
		fmt.Fprintf(&b, "\r%s%s\r\n", ansi.EraseEntireLine, line)
	}
	b.WriteString(ansi.EraseScreenBelow)
	b.WriteString(ansi.ResetModeSynchronizedOutput)
	s.painted = lines
	_, _ = s.out.Write(b.Bytes()) // losing the terminal does not fail the job
}

// rows returns the number of rows of the last picture. A terminal that has become narrower wraps its lines.
func (s *screen) rows(width int) int {
	n := 0
	for _, line := range s.painted {
		n += max((text.Width(line)+width-1)/max(width, 1), 1)
	}
	return n
}
