package granttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Holder accesses a cloud with certain credentials, using the cloud's SDK. If the cloud denies access, it returns an
// error.
type Holder interface {
	Read(ctx context.Context, uri string) ([]byte, error)
	Write(ctx context.Context, uri string, body []byte) error
	List(ctx context.Context, prefix string) error
	Remove(ctx context.Context, uri string) error
}

// LoanHarness is a lender under test and the server that checks the lent credentials.
type LoanHarness struct {
	Lender grant.Lender
	Owner  Holder                                         // has access to everything
	Hold   func(t *testing.T, c grant.Credentials) Holder // with lent credentials
	Bucket string                                         // a URI without a slash at its end
	Other  string                                         // another bucket
	Prefix func(name string) (lent, beside string)        // a prefix to lend, and one that must be denied
	// Lacks is the reason why denials cannot be checked here; empty if they can.
	Lacks string
	// Escapes is the reason why the server rejects a prefix with wildcard characters although the cloud accepts it.
	Escapes string
	// Buckets is true if only whole buckets can be lent here.
	Buckets bool
}

// RunLoans is the conformance suite of lenders: lent credentials work below their prefix and nowhere else.
func RunLoans(t *testing.T, open func(t *testing.T) LoanHarness) {
	h := open(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a reader reads", h.reader},
		{"a writer writes", h.writer},
		{"a whole bucket is lent", h.whole},
		{"another prefix is denied", h.beside},
		{"wildcard characters in a prefix match only themselves", h.patterns},
		{"only prefixes are lent", h.noPrefix},
		{"credentials expire and hide their secrets", h.secrets},
	} {
		t.Run(c.name, c.run)
	}
}

func (h LoanHarness) lend(t *testing.T, prefix string, write bool) Holder {
	t.Helper()
	c, err := h.Lender.Lend(t.Context(), grant.Loan{Prefix: prefix, Write: write, For: 20 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return h.Hold(t, c)
}

func (h LoanHarness) put(t *testing.T, uri string) {
	t.Helper()
	if err := h.Owner.Write(t.Context(), uri, []byte(uri)); err != nil {
		t.Fatal(err)
	}
}

// denied fails the test if something was allowed.
func denied(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: allowed", what)
	}
}

func (h LoanHarness) reader(t *testing.T) {
	lent, _ := h.Prefix("reader")
	h.put(t, lent+"a/b.txt")
	held := h.lend(t, lent, false)
	if got, err := held.Read(t.Context(), lent+"a/b.txt"); err != nil || string(got) != lent+"a/b.txt" {
		t.Errorf("read %q, %v", got, err)
	}
	for _, prefix := range []string{lent, lent + "a/"} {
		if err := held.List(t.Context(), prefix); err != nil {
			t.Errorf("list %s: %v", prefix, err)
		}
	}
	if h.Lacks != "" {
		t.Skip(h.Lacks)
	}
	denied(t, "write", held.Write(t.Context(), lent+"new", nil))
	denied(t, "remove", held.Remove(t.Context(), lent+"a/b.txt"))
}

func (h LoanHarness) writer(t *testing.T) {
	lent, _ := h.Prefix("writer")
	held := h.lend(t, lent, true)
	if err := held.Write(t.Context(), lent+"new", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Owner.Read(t.Context(), lent+"new"); err != nil || string(got) != "new" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := held.Remove(t.Context(), lent+"new"); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func (h LoanHarness) whole(t *testing.T) {
	h.put(t, h.Bucket+"/anywhere")
	held := h.lend(t, h.Bucket, false)
	if _, err := held.Read(t.Context(), h.Bucket+"/anywhere"); err != nil {
		t.Error(err)
	}
	if err := held.List(t.Context(), h.Bucket); err != nil {
		t.Error(err)
	}
	if h.Lacks != "" {
		t.Skip(h.Lacks)
	}
	h.put(t, h.Other+"/x")
	_, err := held.Read(t.Context(), h.Other+"/x")
	denied(t, "read in another bucket", err)
	denied(t, "list another bucket", held.List(t.Context(), h.Other))
}

func (h LoanHarness) beside(t *testing.T) {
	if h.Lacks != "" {
		t.Skip(h.Lacks)
	}
	lent, beside := h.Prefix("beside")
	h.put(t, lent+"mine")
	h.put(t, beside+"x")
	held := h.lend(t, lent, true)
	_, err := held.Read(t.Context(), beside+"x")
	denied(t, "read in another prefix", err)
	denied(t, "write in another prefix", held.Write(t.Context(), beside+"new", []byte("new")))
	denied(t, "remove in another prefix", held.Remove(t.Context(), beside+"x"))
	denied(t, "list another prefix", held.List(t.Context(), beside))
	denied(t, "list the whole bucket", held.List(t.Context(), h.Bucket))
	denied(t, "write to another bucket", held.Write(t.Context(), h.Other+"/new", []byte("new")))
}

func (h LoanHarness) patterns(t *testing.T) {
	if h.Lacks != "" || h.Buckets {
		t.Skip("prefixes are buckets here, whose names cannot have such characters", h.Lacks)
	}
	lent, beside := h.Prefix("pattern")
	star := strings.TrimSuffix(lent, "/") + "*/"
	h.put(t, star+"x")
	h.put(t, beside+"x")
	held := h.lend(t, star, true)
	if _, err := held.Read(t.Context(), star+"x"); err != nil && h.Escapes == "" {
		t.Errorf("read in %s: %v", star, err)
	}
	_, err := held.Read(t.Context(), beside+"x") // it matches the prefix as a pattern
	denied(t, "read what the wildcard would match", err)
}

func (h LoanHarness) noPrefix(t *testing.T) {
	for _, uri := range []string{h.Bucket + "/object", h.Bucket + "/a/../b/", "other://bucket/", ""} {
		_, err := h.Lender.Lend(t.Context(), grant.Loan{Prefix: uri, For: time.Hour})
		if !errors.Is(err, grant.ErrURI) && !errors.Is(err, grant.ErrStore) {
			t.Errorf("%q: %v, want ErrURI or ErrStore", uri, err)
		}
	}
}

func (h LoanHarness) secrets(t *testing.T) {
	lent, _ := h.Prefix("secrets")
	c, err := h.Lender.Lend(t.Context(), grant.Loan{Prefix: lent, For: 20 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(c.Expires); left <= 0 || left > time.Hour+time.Minute {
		t.Errorf("they last %v", left)
	}
	told := fmt.Sprintf("%v %+v %#v %s", c, c, c, c.LogValue())
	for _, secret := range []string{c.SecretKey, c.SessionToken, c.Token, c.Query} {
		if secret != "" && strings.Contains(told, secret) {
			t.Errorf("%s contains %s", told, secret)
		}
	}
}
