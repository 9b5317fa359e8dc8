package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// printJSON writes a value as people and programs can both read it.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable writes a table that fits the terminal.
func (a *app) printTable(t *text.Table) error {
	return a.printLines(t.Lines(width(a.Out), a.style(a.Out)))
}

func (a *app) printLines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(a.Out, strings.Join(lines, "\n")+"\n")
	return err
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// tell writes something that is no result to standard error. That it cannot be written is no failure of the command.
func (a *app) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}

// warn writes a warning.
func (a *app) warn(warnings []string) {
	label := a.style(a.Err).Paint(text.Warn, "warning:")
	for _, w := range warnings {
		a.tell("%s %s", label, text.Clean(w))
	}
}
