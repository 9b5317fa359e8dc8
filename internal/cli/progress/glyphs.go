package progress

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// Glyphs are the symbols of a view.
type Glyphs struct {
	succeeded, failed, cancelled, waiting, queued, dot, more string
	full, empty                                              string
	part                                                     []string // fractions of a cell of the bar, from empty on
	frames                                                   []string
}

// Unicode returns the symbols for terminals that support them.
func Unicode() Glyphs {
	return Glyphs{
		succeeded: "✓", failed: "✗", cancelled: "–", waiting: "◦", queued: "○", dot: "·", more: "…",
		full: "█", empty: "░", part: []string{"░", "▏", "▎", "▍", "▌", "▋", "▊", "▉"},
		frames: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"},
	}
}

// ASCII returns the symbols for all other terminals.
func ASCII() Glyphs {
	return Glyphs{
		succeeded: "+", failed: "x", cancelled: "-", waiting: ".", queued: "o", dot: "|", more: "...",
		full: "#", empty: ".", part: []string{"."}, frames: []string{"|", "/", "-", "\\"},
	}
}

func (g Glyphs) spin(frame int) string { return g.frames[frame%len(g.frames)] }

// state returns the symbol of a task's state.
func (g Glyphs) state(s string, frame int) (string, text.Tone) {
	switch s {
	case string(record.TaskSucceeded):
		return g.succeeded, text.Good
	case string(record.TaskFailed):
		return g.failed, text.Bad
	case stateCancelled:
		return g.cancelled, text.Faint
	case string(record.TaskRunning):
		return g.spin(frame), text.Active
	case string(record.TaskLaunching), string(record.TaskAdmitted):
		return g.spin(frame), text.Warn
	case string(record.TaskQueued):
		return g.queued, text.Plain
	default:
		return g.waiting, text.Faint
	}
}

// bar returns the full and the empty part of a progress bar.
func (g Glyphs) bar(share float64, cells int) (full, empty string) {
	steps := len(g.part)
	n := int(max(0, min(share, 1)) * float64(cells*steps))
	full = strings.Repeat(g.full, n/steps)
	rest := cells - n/steps
	if n%steps > 0 {
		full += g.part[n%steps]
		rest--
	}
	return full, strings.Repeat(g.empty, rest)
}
