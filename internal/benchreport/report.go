// Package benchreport maintains bench/RESULTS.md. The page has one section for each command that measures, and a
// command updates only its own section.
package benchreport

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Row is one measure of a table: its name, target and result, and the command that measures it again.
type Row struct {
	Measure, Target, Result, Command string
}

// Table returns the body of a section from rows.
func Table(rows []Row) string {
	var b strings.Builder
	b.WriteString("| measure | target | measured | command |\n| --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", r.Measure, r.Target, r.Result, r.Command)
	}
	return b.String()
}

const head = `# Results

Each section is written by the command it names, with date and machine. Absolute times depend on that machine.
If a section compares with another program, both ran in the same run, so their ratio is meaningful elsewhere, too.
`

// Section returns a section of the page: its title, the date and machine of the measurement, and body, which is
// markdown without second-level headings.
func Section(title, body string, now time.Time) string {
	return fmt.Sprintf("## %s\n\n%s, %d processors (%s), %s.\n\n%s\n", title, now.UTC().Format("2006-01-02"),
		runtime.NumCPU(), processor(), runtime.Version(), strings.TrimSpace(body))
}

// Write replaces a section of the page at path, or adds it at the end. It creates the page if it does not exist.
func Write(path, title, body string, now time.Time) error {
	page, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, []byte(Replace(string(page), title, Section(title, body, now))), 0o600) //nolint:gosec // the same path
}

// Replace replaces the section with the same title on a page, or adds it at the end.
func Replace(page, title, section string) string {
	sections := split(page)
	found := false
	for i, s := range sections {
		if first, _, _ := strings.Cut(s, "\n"); first == "## "+title {
			sections[i], found = section, true
		}
	}
	if !found {
		sections = append(sections, section)
	}
	for i, s := range sections {
		sections[i] = strings.TrimRight(s, "\n") + "\n"
	}
	return head + "\n" + strings.Join(sections, "\n")
}

// split returns the sections of a page, without the text before the first.
func split(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "## "):
			out = append(out, line)
		case len(out) > 0:
			out[len(out)-1] += line
		}
	}
	return out
}

// processor names the processor model, or the architecture if the model is unknown.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
