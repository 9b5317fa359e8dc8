package text

import (
	"github.com/charmbracelet/x/ansi"
)

// Tone is the meaning of a piece of text, which decides how it looks.
type Tone uint8

// The tones. Plain text is not painted.
const (
	Plain Tone = iota
	Strong
	Faint
	Good
	Bad
	Warn
	Active
)

// Style paints text. The zero value paints nothing, for streams that are not terminals.
type Style struct{ on bool }

// NewStyle returns a style that paints if on is set. It uses the terminal's own sixteen colours, which users have
// chosen to be readable.
func NewStyle(on bool) Style { return Style{on: on} }

// Paint wraps a text in the escape sequences of a tone.
func (s Style) Paint(t Tone, text string) string {
	if !s.on || t == Plain || text == "" {
		return text
	}
	var st ansi.Style
	switch t {
	case Strong:
		st = st.Bold()
	case Faint:
		st = st.Faint()
	case Good:
		st = st.ForegroundColor(ansi.Green)
	case Bad:
		st = st.ForegroundColor(ansi.Red)
	case Warn:
		st = st.ForegroundColor(ansi.Yellow)
	case Active:
		st = st.ForegroundColor(ansi.Cyan)
	}
	return st.Styled(text)
}

// Paints reports whether the style paints at all.
func (s Style) Paints() bool { return s.on }
