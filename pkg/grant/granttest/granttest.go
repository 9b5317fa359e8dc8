// Package granttest is the conformance suite of grant's drivers: granted requests work with a plain HTTP client, and
// all other requests are rejected.
package granttest

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Harness is a store under test and the server that emulates its cloud.
type Harness struct {
	// At returns the store with a clock that shows now.
	At func(now time.Time) grant.Store
	// Calls returns the number of requests that the stores have made to their cloud.
	Calls func() int
	// Prefix is a URI that ends in a slash, below which objects can be written. Other is a prefix in another bucket or
	// folder of the same store.
	Prefix, Other string
	// Lacks has the reasons why checks cannot be made here: features that the server lacks although the cloud has
	// them, or that the cloud lacks, each with its documentation. These checks are skipped with the reason.
	Lacks map[Check]string
	// Secrets are strings that no error may contain: keys, session tokens.
	Secrets []string
	// NoBucket is a prefix in a missing bucket.
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
	Aborts    Check = "requests after an abort"
)

// Run runs the suite. open is called once.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	s := &suite{Harness: h, store: h.At(time.Now())}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a written object can be read", s.roundTrip},
		{"names", s.names},
		{"ranges", s.ranges},
		{"sums", s.sums},
		{"another object is rejected", s.otherObject},
		{"another method is rejected", s.otherMethod},
		{"an expired grant is rejected", s.expiry},
		{"another header is rejected", s.otherHeader},
		{"another length is rejected", s.otherLength},
		{"a changed query parameter is rejected", s.otherTerm},
		{"a batch needs no call", s.batch},
		{"a batch with one bad want is rejected", s.badWant},
		{"parts become an object", s.multipart},
		{"another part is rejected", s.otherPart},
		{"an aborted upload leaves nothing", s.abort},
		{"a small part before the last is rejected", s.smallPart},
		{"missing uploads", s.noUpload},
		{"lists", s.lists},
		{"pages of a list", s.pages},
		{"a removed object is missing", s.remove},
		{"a new object is written once", s.writeOnce},
		{"errors and texts contain no secrets", s.secrets},
	} {
		t.Run(c.name, c.run)
	}
}

type suite struct {
	Harness
	store grant.Store
	made  int
}

// needs skips the test, with the reason, if the harness lacks the check.
func (s *suite) needs(t *testing.T, c Check) {
	t.Helper()
	if why, lacks := s.Lacks[c]; lacks {
		t.Skipf("%s is not checked here: %s", c, why)
	}
}
