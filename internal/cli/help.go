package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// rootHelp prints the help of the whole program on a screen of 24 lines: the most common commands with a line each, and
// the names of the others.
func rootHelp(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(root.Short +
		"\n\n  tradewind run job.yaml    # plan, run and follow a DAG, simulated on this computer\n\n")
	common := map[string][]string{
		groupWork:    {"run", "submit", "status", "logs", "explain", "cancel"},
		groupPlan:    {"plan", "catalog"},
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
		fmt.Fprintf(&b, "  also: %s\n", strings.Join(others, ", "))
	}
	b.WriteString("\n`tradewind COMMAND --help` explains a command, with examples; `completion` is for your shell.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
