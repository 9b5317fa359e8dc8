package cli

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// Env is what a command has of the process it runs in.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // as of os.Environ
	Version  string
	Now      func() time.Time
	// Interrupts are signals that ask to stop; nil is none.
	Interrupts <-chan os.Signal
	// Exit ends the process at once, at the second interrupt.
	Exit func(code int)
	// Brokers finds and opens brokers; nil is the real ones.
	Brokers Brokers
}

// lookup is the value of an environment variable, empty when it is not set.
func (e *Env) lookup(name string) string {
	value := ""
	for _, kv := range e.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v // the last one counts
		}
	}
	return value
}

// terminal returns the file behind a stream if it is a terminal, else nil.
func terminal(stream any) *os.File {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // descriptors are small
		return nil
	}
	return f
}

// style says how to paint on a stream: NO_COLOR, then CLICOLOR_FORCE, TERM and whether it is a terminal decide.
func (e *Env) style(w io.Writer) text.Style {
	if e.lookup("NO_COLOR") != "" {
		return text.Style{}
	}
	return text.NewStyle(colorprofile.Detect(w, e.Environ) >= colorprofile.ANSI)
}

// width is how many cells a line of a stream has; 0 is any number.
func width(w io.Writer) int {
	f := terminal(w)
	if f == nil {
		return 0
	}
	cells, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // descriptors are small
	if err != nil {
		return 0
	}
	return cells
}

// paintable returns the terminal that a live view can be painted on, or nil.
func (e *Env) paintable() *os.File {
	out := terminal(e.Err)
	if kind := e.lookup("TERM"); out == nil || kind == "dumb" || kind == "" {
		return nil
	}
	return out
}

// glyphs are the signs that the locale admits. Where none is set, which is common in containers, terminals show Unicode all the same.
func (e *Env) glyphs() progress.Glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		locale := strings.ToUpper(e.lookup(name))
		if locale == "" {
			continue
		}
		if strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8") {
			break
		}
		return progress.ASCII()
	}
	if e.lookup("TERM") == "linux" {
		return progress.ASCII() // the console's font lacks most of them
	}
	return progress.Unicode()
}
