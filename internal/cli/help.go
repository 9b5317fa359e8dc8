package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// rootHelp prints the help of the whole program on one screen: the most common commands with a line each, and the names
// of the others.
func rootHelp(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(root.Long + "\n\nUsage:\n  tradewind COMMAND [flags]\n\nExamples:\n" + root.Example + "\n")
	common := map[string][]string{
		groupWork:    {"run", "submit", "status", "top", "logs", "explain", "cancel", "shell"},
		groupPlan:    {"plan", "catalog", "convert"},
		groupOperate: {"up", "config", "deploy", "cloud", "queue", "pool", "doctor"},
	}
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n%s\n", g.Title)
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
	b.WriteString("\n`tradewind COMMAND --help` explains a command. --verbose logs what the broker does, --log-format json as JSON.\n" +
		"--version prints the version. `completion` prints the code for shell completion.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
