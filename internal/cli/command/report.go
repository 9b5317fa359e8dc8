package command

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// Report prints an error for a person: the mistake, its place, and a hint. Joined errors are printed one by one, each
// text once. An error without text is not printed.
func Report(w io.Writer, style text.Style, err error) {
	printed := map[string]bool{}
	for _, err := range each(err) {
		what, hint := Describe(err)
		if what == "" || printed[what] {
			continue
		}
		printed[what] = true
		_, _ = fmt.Fprintf(w, "%s %s\n", style.Paint(text.Bad, "error:"), Lines(what))
		if hint != "" {
			_, _ = fmt.Fprintf(w, "%s %s\n", style.Paint(text.Active, "hint:"), Lines(hint))
		}
	}
}

// joined is the type that errors.Join returns. Other errors with several causes have one text for all of them.
var joined = reflect.TypeOf(errors.Join(io.EOF))

// each returns the parts of a joined error, or the error itself.
func each(err error) (all []error) {
	parts, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only the outermost error counts
	if !ok || reflect.TypeOf(err) != joined {
		return []error{err}
	}
	for _, err := range parts.Unwrap() {
		all = append(all, each(err)...)
	}
	return all
}

// Lines makes a text of several lines safe to print.
func Lines(s string) string {
	parts := strings.Split(strings.TrimSpace(s), "\n")
	for i, p := range parts {
		parts[i] = strings.TrimRight(text.Clean(p), " ")
	}
	return strings.Join(parts, "\n")
}
