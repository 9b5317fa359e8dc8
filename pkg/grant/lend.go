package grant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Loan describes the credentials to lend: access to all below one prefix.
type Loan struct {
	Prefix string        // the URI of a bucket, or one ending in a slash
	Write  bool          // write and remove, in addition to read and list
	For    time.Duration // how long; a cloud chooses the nearest duration that it supports
}

// Credentials allow reading, or reading and writing, all below one prefix and nothing else, until they expire. They are
// for programs that cannot request a grant for each object, such as a mount. Any holder can use them, so String,
// GoString and LogValue omit the secrets. Which fields are set depends on the cloud.
type Credentials struct {
	Expires time.Time `json:"expires"`
	// Endpoint is the URL of the store; empty means the cloud's own. For Azure it is the account's.
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

// String describes the credentials without their secrets.
func (c Credentials) String() string {
	return "credentials until " + c.Expires.UTC().Format(time.RFC3339)
}

// GoString is String, for %#v.
func (c Credentials) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Lender lends credentials. A Store that can do so also implements Lender.
type Lender interface {
	// Lend returns credentials for a loan. It fails with ErrURI if l.Prefix is not a prefix, with
	// errors.ErrUnsupported if the cloud cannot limit credentials to it or the store is not configured to lend, and
	// with ErrCredentials if the lender lacks the right.
	Lend(ctx context.Context, l Loan) (Credentials, error)
}

// Lend returns credentials from a store, if it is a Lender.
func Lend(ctx context.Context, s Store, l Loan) (Credentials, error) {
	if lender, ok := s.(Lender); ok {
		return lender.Lend(ctx, l)
	}
	return Credentials{}, fmt.Errorf("grant: %s cannot be mounted: its store cannot lend credentials: %w", l.Prefix,
		errors.ErrUnsupported)
}

// Lend implements Lender with the prefix's store.
func (m Mux) Lend(ctx context.Context, l Loan) (Credentials, error) {
	key, err := m.find(l.Prefix)
	if err != nil {
		return Credentials{}, err
	}
	return Lend(ctx, m[key], l)
}

// checkLoan fails with ErrOutside for a loan outside the scope. Writing also requires the right to read.
func (s Scope) checkLoan(l Loan) error {
	if err := s.checkList(l.Prefix); err != nil || !l.Write {
		return err
	}
	o, err := ParsePrefix(l.Prefix)
	if err != nil {
		return err
	}
	return s.within(s.Write, o)
}

func (s scoped) Lend(ctx context.Context, l Loan) (Credentials, error) {
	if err := s.scope.checkLoan(l); err != nil {
		return Credentials{}, err
	}
	return Lend(ctx, s.store, l)
}

// AsPrefix returns the URI of all below a URI: the URI itself if it is a prefix, otherwise the URI with a slash
// appended.
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
