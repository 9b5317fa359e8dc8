package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Reasons why something could not be read.
const (
	unreadToken = "token"  // the token is not the cloud's
	unreadWords = "notice" // the push is not a notification
	unreadGone  = "gone"   // the file, or this version of it, is missing
	unreadLarge = "large"  // too large for an answer
)

// Pushed is a push.Read. The token is checked in the remote process, which knows the cloud's keys.
func (c *Client) Pushed(ctx context.Context, bearer string, body []byte) (push.News, error) {
	a, err := c.roundTrip(ctx, call{Op: opPush, Bearer: bearer, Body: body})
	switch {
	case err != nil:
		return push.News{}, err
	case a.Unread == unreadToken:
		return push.News{}, fmt.Errorf("%w: %s", identity.ErrInvalid, a.Why)
	case a.Unread == unreadWords:
		return push.News{}, fmt.Errorf("%w: %s", push.ErrNotice, a.Why)
	}
	return a.News, nil
}

// Announce implements driver.Announcer.
func (c *Client) Announce(ctx context.Context, topic string, body []byte, attributes map[string]string) error {
	_, err := c.roundTrip(ctx, call{Op: opAnnounce, Topic: topic, Body: body, Attributes: attributes})
	return err
}

// pushed serves opPush.
func (s Server) pushed(ctx context.Context, in call) (out answer, err error) {
	if s.Pushed == nil {
		return out, cloud.Errorf(
			s.name(),
			cloud.Invalid,
			codeUnknown,
			"this cloud's pushes are not accepted here",
		)
	}
	out.News, err = s.Pushed(ctx, in.Bearer, in.Body)
	switch {
	case errors.Is(err, identity.ErrInvalid):
		return answer{Unread: unreadToken, Why: err.Error()}, nil
	case errors.Is(err, push.ErrNotice):
		return answer{Unread: unreadWords, Why: err.Error()}, nil
	}
	return out, err
}

// maxPacked is the maximum size of a gzipped file in an answer, in bytes: a Lambda function answers with at most 6 MB
// of JSON.
const maxPacked = 4 << 20

var _ driver.Files = (*Client)(nil)

// Read implements driver.Files. It also fails with driver.ErrLarge if the file does not fit into an answer.
func (c *Client) Read(ctx context.Context, bucket, key string) (_ []byte, version string, err error) {
	a, err := c.roundTrip(ctx, call{Op: opRead, Bucket: bucket, Key: key})
	switch {
	case err != nil:
		return nil, "", err
	case a.Unread == unreadGone:
		return nil, "", fmt.Errorf("%s: %w", a.Why, fs.ErrNotExist)
	case a.Unread == unreadLarge:
		return nil, "", fmt.Errorf("%w: %s", driver.ErrLarge, a.Why)
	}
	body, err := unzipped(a.Packed, driver.MaxFile+1)
	if err != nil {
		return nil, "", c.fail(cloud.Transient, codeBadMessage, err)
	}
	return body, a.Version, nil
}

// Write implements driver.Files.
func (c *Client) Write(ctx context.Context, bucket, key string, body []byte) error {
	_, err := c.roundTrip(ctx, call{Op: opWrite, Bucket: bucket, Key: key, Body: body})
	return err
}

// Remove implements driver.Files.
func (c *Client) Remove(ctx context.Context, bucket, key string) error {
	_, err := c.roundTrip(ctx, call{Op: opRemove, Bucket: bucket, Key: key})
	return err
}

// file serves opRead, opWrite and opRemove.
func (s Server) file(ctx context.Context, in call) (out answer, err error) {
	if s.Files == nil {
		return out, cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "this cloud has no bucket with job files")
	}
	switch in.Op {
	case opWrite:
		return out, s.Files.Write(ctx, in.Bucket, in.Key, in.Body)
	case opRemove:
		return out, s.Files.Remove(ctx, in.Bucket, in.Key)
	}
	body, version, err := s.Files.Read(ctx, in.Bucket, in.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return answer{Unread: unreadGone, Why: in.Bucket + "/" + in.Key}, nil
	case errors.Is(err, driver.ErrLarge):
		return answer{Unread: unreadLarge, Why: err.Error()}, nil
	case err != nil:
		return out, err
	}
	packed := zipped(body)
	if len(packed) > maxPacked {
		return answer{Unread: unreadLarge, Why: fmt.Sprintf("it has %d MiB gzipped, and the maximum is %d MiB: "+
			"submit it with the command line", len(packed)>>20, maxPacked>>20)}, nil
	}
	out.Packed, out.Version = packed, version
	return out, nil
}

// zipped returns bytes gzipped.
func zipped(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain) // a buffer accepts everything
	_ = z.Close()
	return b.Bytes()
}

// unzipped returns at most a number of the bytes that zipped has packed.
func unzipped(packed []byte, most int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, most))
}
