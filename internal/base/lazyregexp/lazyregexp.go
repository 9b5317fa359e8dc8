// Package lazyregexp has regular expressions that are compiled at their first use. A program that starts, such as a
// function of Lambda or `tradewind version`, then does not wait for patterns that it never needs.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled at its first use. It is safe for concurrent use.
type Regexp struct {
	compile func() *regexp.Regexp
}

// New returns the expression of a pattern. A malformed pattern panics at its first use.
func New(pattern string) Regexp {
	return Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
}

// MatchString reports whether s contains a match.
func (r Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindStringSubmatch returns the leftmost match in s and its submatches, or nil.
func (r Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }
