package secret

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Within is a source that hands out only what its owner has named: who runs a broker can read more than who hands in
// jobs should.
type Within struct {
	Source Source
	Scheme string   // GCPSM or KeyVault
	Names  []string // OWNER/NAME, of a project or a vault; a star at the end is any rest of the name
}

// CheckNames says what is wrong with names of Within.
func CheckNames(names []string) error {
	for _, n := range names {
		owner, name, ok := strings.Cut(n, "/")
		if !ok || owner == "" || name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") ||
			strings.ContainsAny(owner, "*") || strings.Contains(name, "/") {
			return fmt.Errorf("secrets: %q is not PROJECT/NAME or VAULT/NAME, a star at its end is any rest",
				n)
		}
	}
	return nil
}

// Fetch implements Source. A name that is none is refused by the source, which says how it is written.
func (w Within) Fetch(ctx context.Context, name string) (string, error) {
	part := strings.Split(name, "/")
	switch {
	case w.Scheme == GCPSM && (len(part) == 4 || len(part) == 6): // projects/P/secrets/S/versions/V
		part = []string{part[1], part[3]}
	case w.Scheme == KeyVault && (len(part) == 2 || len(part) == 3): // VAULT/NAME/VERSION, whatever their case
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
		return "", fmt.Errorf("%w: this broker reads only %s", ErrReference, strings.Join(w.Names, ", "))
	}
	return w.Source.Fetch(ctx, name)
}

// Refusal is a source that has nothing, and says why.
type Refusal string

// Fetch implements Source.
func (r Refusal) Fetch(context.Context, string) (string, error) {
	return "", fmt.Errorf("%w: %s", ErrReference, string(r))
}

// Words are those of an error without ErrReference's own, for who puts them before it again.
func Words(err error) string { return strings.TrimPrefix(err.Error(), ErrReference.Error()+": ") }
