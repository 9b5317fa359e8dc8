package localfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Asker returns the missing pieces of a pack. A depot.Depot and a client of the API implement it.
type Asker interface {
	Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error)
}

// ErrFull means that the broker's store has no space for a pack.
var ErrFull = errors.New("no space is left in the broker's store for the files of jobs")

// Sender uploads packs to a depot.
type Sender struct {
	Asker Asker
	HTTP  *http.Client // nil for http.DefaultClient
	// Sent is called with the bytes just sent and the total number of bytes to send; first with 0. It is called by
	// one goroutine at a time. It may be nil.
	Sent func(n, of int64)
}

const (
	sendTogether = 8                // concurrent pieces, each in memory
	sendWithin   = 10 * time.Minute // timeout of one piece
	sendTries    = 4
	signedFor    = time.Minute // minimum remaining lifetime of a grant
)

// Send uploads the pieces of a packed tree that the depot does not have. The list comes last, so that a reader that
// finds it also finds the pieces.
func (s *Sender) Send(ctx context.Context, t *pack.Tree) error {
	sizes := map[pack.Digest]int64{}
	var missing []apitypes.Lack
	var of int64
	all := t.Pieces()
	for part := range slices.Chunk(all, apitypes.MaxAsk) {
		found, err := s.Asker.Missing(ctx, part)
		if err != nil {
			return err
		}
		for _, p := range part {
			sizes[p.Digest] = p.Size
		}
		for _, u := range found {
			if sizes[u.Digest] == 0 {
				return fmt.Errorf("the broker asks for %q, which is not a piece of the pack", u.Digest)
			}
			of += sizes[u.Digest]
		}
		missing = append(missing, found...)
	}
	told := make(chan int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range told {
			if s.Sent != nil {
				s.Sent(n, of)
			}
		}
	}()
	defer func() { close(told); <-done }()
	told <- 0
	send := func(ctx context.Context, u apitypes.Lack) error {
		p := pack.Piece{Digest: u.Digest, Size: sizes[u.Digest]}
		body, err := t.Content(p)
		if err != nil {
			return err
		}
		if err := s.put(ctx, p, u.Grant, body); err != nil {
			return err
		}
		told <- p.Size
		return nil
	}
	list := all[len(all)-1].Digest
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(sendTogether)
	for _, u := range missing {
		if each.Err() != nil {
			break
		}
		if u.Digest != list {
			g.Go(func() error { return send(each, u) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if i := slices.IndexFunc(missing, func(u apitypes.Lack) bool { return u.Digest == list }); i >= 0 {
		return send(ctx, missing[i])
	}
	return ctx.Err()
}

// put uploads a piece, and retries if that may help.
func (s *Sender) put(ctx context.Context, p pack.Piece, g grant.Grant, body []byte) error {
	try := func() (struct{}, error) {
		if time.Until(g.Expires) < signedFor { // a large or slow upload
			again, err := s.Asker.Missing(ctx, []pack.Piece{p})
			if err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
			if len(again) == 0 {
				return struct{}{}, nil // another client uploaded it
			}
			g = again[0].Grant
		}
		return struct{}{}, s.putOnce(ctx, g, body)
	}
	_, err := backoff.Retry(ctx, try, backoff.WithMaxTries(sendTries))
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return nil
}

func (s *Sender) putOnce(ctx context.Context, g grant.Grant, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	req, err := g.Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return backoff.Permanent(err)
	}
	client := s.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if res.StatusCode < 300 {
		return nil
	}
	if res.StatusCode == http.StatusInsufficientStorage {
		return backoff.Permanent(ErrFull)
	}
	words, _ := io.ReadAll(io.LimitReader(res.Body, 512)) // a part is enough for the message
	err = fmt.Errorf("%s: %s: %q", g, res.Status, words)
	if res.StatusCode < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests},
		res.StatusCode) {
		return backoff.Permanent(err)
	}
	return err
}

// tries is the number of times that Bring packs a folder or file that changes while it is sent.
const tries = 3

// Bring packs a folder or file, and uploads the pieces that the depot does not have. If something changes meanwhile,
// it packs it again, several times. It returns the closed tree, for its URI and size.
func (s *Sender) Bring(ctx context.Context, name string, o pack.Options) (*pack.Tree, error) {
	for try := 1; ; try++ {
		t, err := pack.Pack(ctx, name, o)
		if err != nil {
			return nil, err
		}
		err = errors.Join(s.Send(ctx, t), t.Close())
		var changed *pack.Changed
		if !errors.As(err, &changed) || try == tries {
			return t, err
		}
	}
}
