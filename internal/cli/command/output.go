package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// PrintJSON writes a value as people and programs can both read it.
func (a *App) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintTable writes a table that fits the terminal.
func (a *App) PrintTable(t *text.Table) error {
	return a.PrintLines(t.Lines(Width(a.Out), a.Style(a.Out)))
}

// PrintLines prints lines, none where there are none.
func (a *App) PrintLines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(a.Out, strings.Join(lines, "\n")+"\n")
	return err
}

// Printf prints to the command's output.
func (a *App) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// Tell writes something that is no result to standard error. That it cannot be written is no failure of the command.
func (a *App) Tell(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}

// Warn writes a warning.
func (a *App) Warn(warnings []string) {
	label := a.Style(a.Err).Paint(text.Warn, "warning:")
	for _, w := range warnings {
		a.Tell("%s %s", label, text.Clean(w))
	}
}
