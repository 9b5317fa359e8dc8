// Package granttest is the conformance suite of grant's drivers: what is granted works with a plain HTTP client, and
// nothing else does.
package granttest

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Harness is a store under test and the server that answers for its cloud.
type Harness struct {
	// At returns the store with a clock that says now.
	At func(now time.Time) grant.Store
	// Calls counts what the stores asked their cloud so far.
	Calls func() int
	// Prefix is a URI, ending in a slash, below which objects can be written; Other is one in another bucket, or in
	// another folder, that the same store serves.
	Prefix, Other string
	// Lacks says why a check cannot be made here, by its name: what the server does not do though the cloud does, or
	// what the cloud itself does not, each with its documentation. The check is skipped with these words.
	Lacks map[Check]string
	// Secrets are words that no error may have in it: keys, session tokens.
	Secrets []string
	// NoBucket is a prefix in a bucket that is not there.
	NoBucket string
}

// Check names a part of the suite.
type Check string

// The checks that a harness may lack.
const (
	Headers   Check = "a changed or missing header"
	Parts     Check = "another part"
	Lengths   Check = "another length of the body"
	PartETags Check = "a part's ETag"
	MinParts  Check = "a small part before the last"
	Aborts    Check = "what comes after an abort"
)

// Run runs the suite. open is called once.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	s := &suite{Harness: h, store: h.At(time.Now())}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"what is written is read", s.roundTrip},
		{"names", s.names},
		{"ranges", s.ranges},
		{"sums", s.sums},
		{"another object is refused", s.otherObject},
		{"another method is refused", s.otherMethod},
		{"an expired grant is refused", s.expiry},
		{"another header is refused", s.otherHeader},
		{"another length is refused", s.otherLength},
		{"a changed term is refused", s.otherTerm},
		{"a batch needs no call", s.batch},
		{"a batch with one bad want is refused", s.badWant},
		{"parts become an object", s.multipart},
		{"another part is refused", s.otherPart},
		{"an aborted upload leaves nothing", s.abort},
		{"a small part before the last is refused", s.smallPart},
		{"uploads that are not there", s.noUpload},
		{"lists", s.lists},
		{"pages of a list", s.pages},
		{"what is removed is gone", s.remove},
		{"errors and texts keep secrets", s.secrets},
	} {
		t.Run(c.name, c.run)
	}
}

type suite struct {
	Harness
	store grant.Store
	made  int
}

// needs skips the test if the harness lacks the check, and says why.
func (s *suite) needs(t *testing.T, c Check) {
	t.Helper()
	if why, lacks := s.Lacks[c]; lacks {
		t.Skipf("%s is not checked here: %s", c, why)
	}
}
