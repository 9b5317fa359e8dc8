package desk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/mailbox"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Bucket is the folder of a bucket that has all mailboxes of a broker.
type Bucket struct {
	Store  grant.Store
	Client *http.Client // for the requests that Store signs; nil means http.DefaultClient
	URI    string       // of the folder: s3://bucket/mail
}

// Wall times of requests to the bucket.
const (
	ownFor     = 5 * time.Minute // lifetime of signatures for the broker's own requests
	tryTimeout = 30 * time.Second
)

// object is an object of a list.
type object struct {
	name string // below the folder
	size int64
}

// list returns the objects in a folder below the bucket's. A missing bucket has none.
func (b Bucket) list(ctx context.Context, folder string) (all []object, err error) {
	prefix := strings.TrimSuffix(b.URI, "/") + "/" + folder
	top, err := grant.ParsePrefix(strings.TrimSuffix(b.URI, "/") + "/")
	if err != nil {
		return nil, err
	}
	for o, err := range grant.Objects(ctx, b.Store, prefix) {
		if err != nil {
			return nil, err
		}
		at, err := grant.Parse(o.URI)
		if err != nil {
			return nil, err
		}
		all = append(all, object{name: strings.TrimPrefix(at.Key, top.Key), size: o.Size})
	}
	return all, nil
}

func (b Bucket) uri(name string) (string, error) { return grant.Below(b.URI, name) }

// get reads an object, or returns fs.ErrNotExist.
func (b Bucket) get(ctx context.Context, name string) ([]byte, error) {
	resp, err := b.do(ctx, grant.Want{Op: grant.Get}, name, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(resp.Body, mailbox.MaxLetter+1))
}

// put writes an object, also over an older one.
func (b Bucket) put(ctx context.Context, name string, body []byte) error {
	resp, err := b.do(ctx, grant.Want{Op: grant.Put, Size: int64(len(body))}, name, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do signs a request and sends it.
func (b Bucket) do(ctx context.Context, w grant.Want, name string, body []byte) (*http.Response, error) {
	var err error
	if w.URI, err = b.uri(name); err != nil {
		return nil, err
	}
	w.For = ownFor
	grants, err := b.Store.Sign(ctx, w)
	if err != nil {
		return nil, err
	}
	req, err := grants[0].Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	client := b.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, grant.Redact(err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && w.Op == grant.Get {
		return nil, fmt.Errorf("mailbox: %s: %w", name, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("mailbox: %s of %s: %s %s", w.Op, name, resp.Status, text)
}

func (b Bucket) remove(ctx context.Context, name string) error {
	uri, err := b.uri(name)
	if err != nil {
		return err
	}
	return b.Store.Remove(ctx, uri)
}

// link returns a URL that reads an object, for as long as the store allows.
func (b Bucket) link(ctx context.Context, name string) (string, error) {
	uri, err := b.uri(name)
	if err != nil {
		return "", err
	}
	grants, err := b.Store.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: lifetime})
	if err != nil {
		return "", err
	}
	return grants[0].URL, nil
}

// slots signs the URLs of numbers of a rank.
func (b Bucket) slots(ctx context.Context, box string, rank, from, to int, lasts time.Duration) ([]mailbox.Slot,
	error) {
	var wants []grant.Want
	for n := from; n <= to; n++ {
		in, err := b.uri(mailbox.InName(box, rank, n))
		if err != nil {
			return nil, err
		}
		out, err := b.uri(mailbox.OutName(box, rank, n))
		if err != nil {
			return nil, err
		}
		wants = append(wants,
			grant.Want{Op: grant.Put, URI: in, For: lasts, Size: mailbox.MaxLetter, New: true},
			grant.Want{Op: grant.Get, URI: out, For: lasts})
	}
	grants, err := b.Store.Sign(ctx, wants...)
	if err != nil {
		return nil, err
	}
	slots := make([]mailbox.Slot, 0, len(grants)/2)
	for i := 0; i < len(grants); i += 2 {
		slots = append(slots, mailbox.Slot{Number: from + i/2, Put: grants[i], Get: grants[i+1]})
	}
	return slots, nil
}

// missing reports whether err means that an object, or the bucket, does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, grant.ErrNoBucket)
}
