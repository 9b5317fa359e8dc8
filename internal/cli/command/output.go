package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// PrintJSON prints a value as indented JSON, or as YAML with the same fields in the same order.
func (a *App) PrintJSON(v any) error {
	if a.YAML {
		return a.printYAML(v)
	}
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *App) printYAML(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(body, &doc); err != nil {
		return err
	}
	block(&doc)
	enc := yaml.NewEncoder(a.Out)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(&doc), enc.Close())
}

// block removes the style of JSON from a document. Empty lists and mappings keep it.
func block(n *yaml.Node) {
	n.Style = 0
	if n.Kind != yaml.ScalarNode && n.Kind != yaml.DocumentNode && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

// PrintTable prints a table that fits the terminal.
func (a *App) PrintTable(t *text.Table) error {
	return a.PrintLines(t.Lines(Width(a.Out), a.Style(a.Out)))
}

// PrintLines prints lines; it prints nothing for none.
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

// Tell prints a message that is not a result to standard error. It ignores write errors.
func (a *App) Tell(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}

// Warn prints warnings to standard error.
func (a *App) Warn(warnings []string) {
	label := a.Style(a.Err).Paint(text.Warn, "warning:")
	for _, w := range warnings {
		a.Tell("%s %s", label, text.Clean(w))
	}
}
