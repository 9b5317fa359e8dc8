package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// Env is the process that a command runs in.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // as of os.Environ
	Version  string
	Now      func() time.Time
	// Interrupts are signals to stop; nil means none.
	Interrupts <-chan os.Signal
	// Ask asks a person a question on one line and returns the answer; nil means that no one can answer.
	Ask func(ctx context.Context, question string) (string, error)
	// Exit ends the process at once; the second interrupt calls it.
	Exit func(code int)
}

// Lookup returns the value of an environment variable, empty if it is not set.
func (e *Env) Lookup(name string) string {
	value := ""
	for _, kv := range e.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v // the last one wins
		}
	}
	return value
}

// Has reports whether an environment variable is set, even to an empty value.
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

// AskOn returns how to ask on a terminal: nil unless both streams are terminals. A question ends with its context, and
// with the end of the input, which is an io.EOF.
func AskOn(in io.Reader, out io.Writer) func(context.Context, string) (string, error) {
	if Terminal(in) == nil || Terminal(out) == nil {
		return nil
	}
	lines := bufio.NewReader(in)
	return func(ctx context.Context, question string) (string, error) {
		_, _ = fmt.Fprint(out, question)
		type answer struct {
			line string
			err  error
		}
		got := make(chan answer, 1)
		go func() { // an interrupted question leaves it reading until the process ends
			line, err := lines.ReadString('\n')
			got <- answer{line, err}
		}()
		select {
		case a := <-got:
			return strings.TrimSpace(a.line), a.err
		case <-ctx.Done():
			_, _ = fmt.Fprintln(out)
			return "", ctx.Err()
		}
	}
}

// Style returns the style for a stream, decided by NO_COLOR, CLICOLOR_FORCE, TERM and whether it is a terminal.
func (e *Env) Style(w io.Writer) text.Style {
	if e.Lookup("NO_COLOR") != "" {
		return text.Style{}
	}
	return text.NewStyle(colorprofile.Detect(w, e.Environ) >= colorprofile.ANSI)
}

// Width returns the number of cells in a line of a stream; 0 means unlimited.
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

// EnvEndpoint names the remote broker if no flag does.
const EnvEndpoint = "TRADEWIND_ENDPOINT"
