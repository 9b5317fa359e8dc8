package command

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

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
}

// Lookup is the value of an environment variable, empty when it is not set.
func (e *Env) Lookup(name string) string {
	value := ""
	for _, kv := range e.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v // the last one counts
		}
	}
	return value
}

// Has says whether an environment variable is set, be it to nothing.
func (e *Env) Has(name string) bool {
	return slices.ContainsFunc(e.Environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// Terminal returns the file behind a stream if it is a terminal, else nil.
func Terminal(stream any) *os.File {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // descriptors are small
		return nil
	}
	return f
}

// Style says how to paint on a stream: NO_COLOR, then CLICOLOR_FORCE, TERM and whether it is a terminal decide.
func (e *Env) Style(w io.Writer) text.Style {
	if e.Lookup("NO_COLOR") != "" {
		return text.Style{}
	}
	return text.NewStyle(colorprofile.Detect(w, e.Environ) >= colorprofile.ANSI)
}

// Width is how many cells a line of a stream has; 0 is any number.
func Width(w io.Writer) int {
	f := Terminal(w)
	if f == nil {
		return 0
	}
	cells, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // descriptors are small
	if err != nil {
		return 0
	}
	return cells
}

// EnvEndpoint names the broker elsewhere that is meant, where no flag does.
const EnvEndpoint = "TRADEWIND_ENDPOINT"
