package drivers

import (
	"fmt"
	"strings"
)

// Page writes what was found as Markdown.
func Page(found []Suite) []byte {
	var b strings.Builder
	b.WriteString("# Drivers\n\nEach port has one conformance suite, and every driver runs it. This page is written " +
		"from the tests by\n" +
		"`go generate ./internal/drivers`, and a test fails when it is stale. What a suite's options leave out or " +
		"add, its package says.\n")
	for i := range found {
		s := &found[i]
		fmt.Fprintf(&b, "\n## %s\n\n`%s` holds a driver to %d checks.\n\n", s.Port, s.Package, len(s.Checks))
		b.WriteString("| driver | test | on | options |\n| --- | --- | --- | --- |\n")
		for _, r := range s.Runs {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", r.Driver, r.Test, strings.Join(r.On, ", "),
				strings.Join(r.Options, ", "))
		}
		b.WriteString("\n")
		for _, r := range s.Runs {
			if r.Remark != "" {
				fmt.Fprintf(&b, "- %s (`%s`)\n", strings.TrimSuffix(strings.TrimPrefix(r.Remark, r.Test+" "), "."),
					r.Driver)
			}
		}
		fmt.Fprintf(&b, "\n<details><summary>the checks</summary>\n\n")
		for _, c := range s.Checks {
			fmt.Fprintf(&b, "- %s\n", c)
		}
		b.WriteString("\n</details>\n")
	}
	return []byte(b.String())
}
