package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// screen paints pictures of a few lines one over the other, at the end of what a terminal shows. The cursor rests on
// the line below the picture.
type screen struct {
	out     io.Writer
	tty     terminal
	active  bool     // the terminal is ours
	painted []string // lines of the last picture
}

// terminal is what a screen asks of a terminal beside writing to it.
type terminal interface {
	// foreground says whether the terminal is this program's now.
	foreground() bool
	// quiet turns the echo of what is typed off, or on again.
	quiet(on bool)
	// size is in cells and lines.
	size() (width, height int)
}

// enter takes the terminal, if it can be had.
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

// leave gives the terminal back as it was.
func (s *screen) leave() {
	if !s.active {
		return
	}
	s.active, s.painted = false, nil
	_, _ = io.WriteString(s.out, ansi.ShowCursor)
	s.tty.quiet(false)
}

// paint replaces the last picture. No line of it is longer than width.
func (s *screen) paint(picture string, width int) {
	lines := strings.Split(picture, "\n")
	var b bytes.Buffer
	// Where the terminal knows it, nothing is shown before all of it is there.
	b.WriteString(ansi.SetModeSynchronizedOutput)
	if up := s.rows(width); up > 0 {
		b.WriteString(ansi.CursorUp(up))
	}
	for _, line := range lines {
		// Erased before it is written: a line that fills the width leaves the cursor on its last cell.
		fmt.Fprintf(&b, "\r%s%s\r\n", ansi.EraseEntireLine, line)
	}
	b.WriteString(ansi.EraseScreenBelow)
	b.WriteString(ansi.ResetModeSynchronizedOutput)
	s.painted = lines
	_, _ = s.out.Write(b.Bytes()) // a terminal that went away is no failure of the job
}

// rows is how many rows the last picture takes. Terminals that have become narrower wrap it.
func (s *screen) rows(width int) int {
	n := 0
	for _, line := range s.painted {
		n += max((text.Width(line)+width-1)/max(width, 1), 1)
	}
	return n
}
