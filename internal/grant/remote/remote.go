// Package remote is a grant.Store whose driver runs in another process: a function of the cloud. Only that function
// links the cloud's SDK, and only it is trusted by the cloud. [Client] is the store that the broker uses; [Server]
// answers its calls. They exchange one JSON message in each direction over any transport. A batch of grants is one
// message.
//
// Answers contain signed URLs and lent credentials: the transport must not log them.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Call sends a message to the server and returns its answer.
type Call func(ctx context.Context, message []byte) ([]byte, error)

// The calls.
const (
	opSign     = "sign"
	opBegin    = "begin"
	opComplete = "complete"
	opAbort    = "abort"
	opList     = "list"
	opRemove   = "remove"
	opLend     = "lend"
	opMake     = "makeBucket"
	opUnmake   = "removeBucket"
)

// call is a request.
type call struct {
	Grant  string           `json:"grant"` // the operation; no other kind of message has this field
	Wants  []grant.Want     `json:"wants,omitempty"`
	URI    string           `json:"uri,omitempty"` // of an object, a prefix or a bucket
	Upload string           `json:"upload,omitempty"`
	Parts  []grant.Uploaded `json:"parts,omitempty"`
	After  string           `json:"after,omitempty"`
	Loan   *grant.Loan      `json:"loan,omitempty"`
	// Within is how long the caller waits.
	Within time.Duration `json:"within,omitempty"`
}

// answer is the response to a call.
type answer struct {
	Grants      []grant.Grant      `json:"grants,omitempty"`
	Upload      string             `json:"upload,omitempty"`
	Page        grant.Page         `json:"page,omitzero"`
	Credentials *grant.Credentials `json:"credentials,omitempty"`
	Failure     *Failure           `json:"failure,omitempty"`
}

// Failure is an error in a message: its text, and which of package grant's errors it is.
type Failure struct {
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message"`
	kind    error
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns package grant's error, or nil for a possibly temporary error.
func (f *Failure) Unwrap() error { return f.kind }

// kinds returns the errors that callers distinguish. The first that matches is sent.
func kinds() []struct {
	name string
	err  error
} {
	return []struct {
		name string
		err  error
	}{
		{"uri", grant.ErrURI}, {"want", grant.ErrWant}, {"outside", grant.ErrOutside}, {"upload", grant.ErrUpload},
		{"bucket", grant.ErrNoBucket}, {"credentials", grant.ErrCredentials}, {"store", grant.ErrStore},
		{"unsupported", errors.ErrUnsupported},
	}
}

// IsCall reports whether a message is a call of this package. A function that also answers other messages checks it
// first.
func IsCall(message []byte) bool {
	var probe struct {
		Grant string `json:"grant"`
	}
	return json.Unmarshal(message, &probe) == nil && probe.Grant != ""
}

// Client is a store that calls a Server. It implements grant.Store, grant.Lender and grant.Bucketer.
type Client struct{ call Call }

var (
	_ grant.Store    = (*Client)(nil)
	_ grant.Lender   = (*Client)(nil)
	_ grant.Bucketer = (*Client)(nil)
)

// New returns a store that sends its calls with c.
func New(c Call) *Client { return &Client{call: c} }

func (c *Client) ask(ctx context.Context, what call) (a answer, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	if until, ok := ctx.Deadline(); ok {
		what.Within = time.Until(until)
	}
	message, err := json.Marshal(what)
	if err != nil {
		return a, err
	}
	back, err := c.call(ctx, message)
	if err != nil {
		return a, fmt.Errorf("grant: %s: no answer: %w", what.Grant, err)
	}
	if err := json.Unmarshal(back, &a); err != nil {
		return answer{}, fmt.Errorf("grant: %s: the answer is not valid JSON", what.Grant) // err may have secrets
	}
	if f := a.Failure; f != nil {
		for _, k := range kinds() {
			if k.name == f.Kind {
				f.kind = k.err
			}
		}
		return answer{}, f
	}
	return a, nil
}

// Sign implements grant.Signer with one message for all wants. It rejects invalid wants itself.
func (c *Client) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	for _, w := range wants {
		if _, err := w.Check(); err != nil {
			return nil, err
		}
	}
	if len(wants) == 0 {
		return []grant.Grant{}, nil
	}
	a, err := c.ask(ctx, call{Grant: opSign, Wants: wants})
	if err == nil && len(a.Grants) != len(wants) {
		err = fmt.Errorf("grant: the answer has %d grants for %d wants", len(a.Grants), len(wants))
	}
	if err != nil {
		return nil, err
	}
	return a.Grants, nil
}

// Begin implements grant.Store.
func (c *Client) Begin(ctx context.Context, uri string) (string, error) {
	a, err := c.ask(ctx, call{Grant: opBegin, URI: uri})
	return a.Upload, err
}

// Complete implements grant.Store.
func (c *Client) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	_, err := c.ask(ctx, call{Grant: opComplete, URI: uri, Upload: upload, Parts: parts})
	return err
}

// Abort implements grant.Store.
func (c *Client) Abort(ctx context.Context, uri, upload string) error {
	_, err := c.ask(ctx, call{Grant: opAbort, URI: uri, Upload: upload})
	return err
}

// List implements grant.Store.
func (c *Client) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	a, err := c.ask(ctx, call{Grant: opList, URI: prefix, After: after})
	return a.Page, err
}

// Remove implements grant.Store.
func (c *Client) Remove(ctx context.Context, uri string) error {
	_, err := c.ask(ctx, call{Grant: opRemove, URI: uri})
	return err
}

// Lend implements grant.Lender.
func (c *Client) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	a, err := c.ask(ctx, call{Grant: opLend, Loan: &l})
	if err != nil {
		return grant.Credentials{}, err
	}
	if a.Credentials == nil {
		return grant.Credentials{}, fmt.Errorf("grant: %w: the answer has none for %s", grant.ErrCredentials, l.Prefix)
	}
	return *a.Credentials, nil
}

// MakeBucket implements grant.Bucketer.
func (c *Client) MakeBucket(ctx context.Context, bucket string) error {
	_, err := c.ask(ctx, call{Grant: opMake, URI: bucket})
	return err
}

// RemoveBucket implements grant.Bucketer.
func (c *Client) RemoveBucket(ctx context.Context, bucket string) error {
	_, err := c.ask(ctx, call{Grant: opUnmake, URI: bucket})
	return err
}
