package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width of the help. With 24 lines, it fits the smallest usual terminal.
const helpWidth = 80

// rootHelp prints the help of the whole program on one screen: the most common commands with a line each, and the names
// of the others.
func rootHelp(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(root.Long + "\n\n" + root.Example + "\n\n")
	common := map[string][]string{
		groupWork:    {"run", "submit", "status", "logs", "explain", "cancel"},
		groupPlan:    {"plan"},
		groupOperate: {"up", "cloud", "deploy", "queue"},
	}
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "%s\n", g.Title)
		var others []string
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden && !slices.Contains(common[g.ID], c.Name()) {
				others = append(others, c.Name())
			}
		}
		for _, name := range common[g.ID] {
			c, _, err := root.Find([]string{name})
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "  %-9s %s\n", name, c.Short)
		}
		b.WriteString(wrapped("  also:", others))
	}
	b.WriteString("`tradewind COMMAND --help` explains a command, with examples.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// wrapped writes a list after its title on as many lines as it needs.
func wrapped(title string, names []string) string {
	var b strings.Builder
	line := title
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if len(line)+1+len(name) > helpWidth {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(title))
		}
		line += " " + name
	}
	return b.String() + line + "\n"
}
