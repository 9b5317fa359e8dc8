package secret

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Restricted restricts a source to secrets that the broker's owner has listed. It is needed because a broker can read
// more secrets than its users should.
type Restricted struct {
	Source Source
	Scheme string   // GCPSM or KeyVault
	Names  []string // OWNER/NAME, where OWNER is a project or a vault; NAME may end in * for any rest
}

// CheckNames returns an error if one of the names is not valid for Within.
func CheckNames(names []string) error {
	for _, n := range names {
		owner, name, ok := strings.Cut(n, "/")
		if !ok || owner == "" || name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") ||
			strings.ContainsAny(owner, "*") || strings.Contains(name, "/") {
			return fmt.Errorf("secrets: %q is not PROJECT/NAME or VAULT/NAME; a name may end in * for any rest",
				n)
		}
	}
	return nil
}

// Fetch implements Source. A name with the wrong format is passed to the source, whose error describes the format.
func (w Restricted) Fetch(ctx context.Context, name string) (string, error) {
	part := strings.Split(name, "/")
	switch {
	case w.Scheme == GCPSM && (len(part) == 4 || len(part) == 6): // projects/P/secrets/S/versions/V
		part = []string{part[1], part[3]}
	case w.Scheme == KeyVault && (len(part) == 2 || len(part) == 3): // VAULT/NAME/VERSION, case-insensitive
		part = []string{strings.ToLower(part[0]), strings.ToLower(part[1])}
	default:
		return w.Source.Fetch(ctx, name)
	}
	short := part[0] + "/" + part[1]
	named := func(n string) bool {
		if w.Scheme == KeyVault {
			n = strings.ToLower(n)
		}
		begin, any := strings.CutSuffix(n, "*")
		return short == n || any && strings.HasPrefix(short, begin)
	}
	if !slices.ContainsFunc(w.Names, named) {
		return "", fmt.Errorf("%w: this broker reads only %s", ErrUnavailable, strings.Join(w.Names, ", "))
	}
	return w.Source.Fetch(ctx, name)
}

// Refusal is a source without secrets. Its text is the reason.
type Refusal string

// Fetch implements Source.
func (r Refusal) Fetch(context.Context, string) (string, error) {
	return "", fmt.Errorf("%w: %s", ErrUnavailable, string(r))
}

// Message returns the text of an error without that of ErrUnavailable, for callers that wrap it with ErrUnavailable
// again.
func Message(err error) string { return strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ") }
