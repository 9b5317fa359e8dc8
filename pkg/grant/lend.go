package grant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Loan is what credentials are asked for: all below one prefix.
type Loan struct {
	Prefix string        // the URI of a bucket, or one that ends in a slash
	Write  bool          // to write and remove there, beside reading and listing
	For    time.Duration // how long; a cloud gives what is nearest of what it has
}

// Credentials read, or read and write, what lies below one prefix, and nothing else, until they expire. They are for
// what cannot ask for each object by itself, such as a mount. Whoever has them has the right: their String, GoString
// and LogValue say nothing of what makes them one. Which fields are set is the cloud's matter.
type Credentials struct {
	Expires time.Time `json:"expires"`
	// Endpoint is the URL at which the store answers; empty is the cloud's own. Of Azure it is the account's.
	Endpoint string `json:"endpoint,omitempty"`

	// S3
	AccessKey    string `json:"accessKey,omitempty"`
	SecretKey    string `json:"secretKey,omitempty"`
	SessionToken string `json:"sessionToken,omitempty"`
	Region       string `json:"region,omitempty"`
	PathStyle    bool   `json:"pathStyle,omitempty"` // buckets are in the path of URLs, not in the host

	Token string `json:"token,omitempty"` // Google: an OAuth access token
	Query string `json:"query,omitempty"` // Azure: a shared access signature, without a question mark
}

// String is the credentials without what makes them some.
func (c Credentials) String() string {
	return "credentials until " + c.Expires.UTC().Format(time.RFC3339)
}

// GoString is String, for %#v.
func (c Credentials) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Lender lends credentials. A Store that can is one as well.
type Lender interface {
	// Lend returns credentials for a loan. It fails with ErrURI for what is no prefix, with errors.ErrUnsupported where
	// the cloud cannot bound credentials to it, or the store was not told how, and with ErrCredentials where whoever
	// lends may not.
	Lend(ctx context.Context, l Loan) (Credentials, error)
}

// Lend has a store lend, if it does.
func Lend(ctx context.Context, s Store, l Loan) (Credentials, error) {
	if lender, ok := s.(Lender); ok {
		return lender.Lend(ctx, l)
	}
	return Credentials{}, fmt.Errorf("grant: %s cannot be mounted: its store lends no credentials: %w", l.Prefix,
		errors.ErrUnsupported)
}

// Lend implements Lender by the prefix's store.
func (m Mux) Lend(ctx context.Context, l Loan) (Credentials, error) {
	key, err := m.find(l.Prefix)
	if err != nil {
		return Credentials{}, err
	}
	return Lend(ctx, m[key], l)
}

// CheckLoan fails with ErrOutside for a loan that reaches beyond the scope. Who writes must be allowed to read, too.
func (s Scope) CheckLoan(l Loan) error {
	if err := s.CheckList(l.Prefix); err != nil || !l.Write {
		return err
	}
	o, err := ParsePrefix(l.Prefix)
	if err != nil {
		return err
	}
	return s.within(s.Write, o)
}

func (s scoped) Lend(ctx context.Context, l Loan) (Credentials, error) {
	if err := s.scope.CheckLoan(l); err != nil {
		return Credentials{}, err
	}
	return Lend(ctx, s.store, l)
}

// AsPrefix is the URI of all that lies below what a URI names: itself where it is a prefix, else with a slash after
// it.
func AsPrefix(uri string) (string, error) {
	o, err := parse(uri)
	if err != nil {
		return "", err
	}
	if o.Key != "" && !strings.HasSuffix(o.Key, "/") {
		o.Key += "/"
	}
	return o.String(), nil
}
