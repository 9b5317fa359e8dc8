package mailbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Wall times of the agent's side.
const (
	firstLook   = 300 * time.Millisecond // after the letter was put
	maxLook     = 2 * time.Second        // between two looks for an answer
	putAgain    = 15 * time.Second       // after which a letter without an answer is put again, if it may be missing
	tryTimeout  = 30 * time.Second       // of one request to the bucket
	slotMargin  = 5 * time.Second        // before its expiry, a slot counts as expired
	refillPause = 2 * time.Second        // between two looks for more URLs, if there are none left
	forgetAfter = 10 * time.Minute       // after which a call that was given up is forgotten
)

// Transport sends an agent's calls through its mailbox. Requests to other hosts than the book's endpoint go directly to
// them. It is safe for concurrent use.
type Transport struct {
	book     Book
	address  Address
	rank     int
	endpoint *url.URL
	bucket   *http.Client
	direct   http.RoundTripper
	log      *slog.Logger

	mu    sync.Mutex
	slots map[int]Slot // of numbers from next on
	have  int          // highest number of a slot so far
	next  int          // number of the next letter
	calls map[callID]*call
}

// callID distinguishes calls. A repetition of a call has the same ID.
type callID [sha256.Size]byte

// call is a call without an answer yet.
type call struct {
	letter Letter
	slot   Slot
	busy   bool      // a RoundTrip waits for its answer
	put    bool      // the letter is in the bucket, or may be
	since  time.Time // when it was last put
	left   time.Time // when a RoundTrip last stopped waiting for its answer
}

// Options of Connect; the zero values are useful.
type Options struct {
	// Bucket is the client for requests to the bucket; nil means http.DefaultClient.
	Bucket *http.Client
	// Direct carries requests to other hosts; nil means http.DefaultTransport.
	Direct http.RoundTripper
	Log    *slog.Logger
}

// Connect reads the book at an address and returns the transport of one rank. It tries again until ctx ends: the first
// machines may boot before the broker has written the book.
func Connect(ctx context.Context, a Address, rank int, o Options) (*Transport, error) {
	t := &Transport{address: a, rank: rank, bucket: o.Bucket, direct: o.Direct, log: o.Log, slots: map[int]Slot{},
		calls: map[callID]*call{}, next: 1}
	if t.bucket == nil {
		t.bucket = http.DefaultClient
	}
	if t.direct == nil {
		t.direct = http.DefaultTransport
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	for {
		err := t.readBook(ctx)
		if err == nil {
			break
		}
		if errors.Is(err, ErrSealed) {
			return nil, err
		}
		if perr := clock.Pause(ctx, maxLook); perr != nil {
			return nil, fmt.Errorf("mailbox: no book: %w", err)
		}
	}
	if rank < 0 || rank >= len(t.book.Ranks) {
		return nil, fmt.Errorf("%w: rank %d of %d", ErrAddress, rank, len(t.book.Ranks))
	}
	var err error
	if t.endpoint, err = url.Parse(t.book.Endpoint); err != nil || t.endpoint.Host == "" {
		return nil, fmt.Errorf("%w: endpoint %q", ErrAddress, t.book.Endpoint)
	}
	t.add(t.book.Ranks[rank])
	return t, nil
}

// Book returns the mailbox's book.
func (t *Transport) Book() Book { return t.book }

func (t *Transport) readBook(ctx context.Context) error {
	body, found, err := t.get(ctx, grant.Grant{Method: http.MethodGet, URL: t.address.Book})
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("mailbox: the book is missing")
	}
	return t.address.Key.Open(BookName(t.address.Mailbox), body, &t.book)
}

// add adds slots, which may replace older ones.
func (t *Transport) add(more []Slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range more {
		t.have = max(t.have, s.Number)
		if s.Number >= t.next {
			t.slots[s.Number] = s
		}
		for _, c := range t.calls {
			if c.slot.Number == s.Number {
				c.slot = s
			}
		}
	}
}

// RoundTrip implements http.RoundTripper. It returns when the answer is there or the request's context ends. The same
// request can then be made again: it gets the answer to the same letter.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.endpoint.Host {
		return t.direct.RoundTrip(r)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	for {
		c, id, err := t.begin(r, body)
		if err != nil {
			return nil, err
		}
		reply, err := t.exchange(r.Context(), c)
		t.end(id, c, err == nil)
		if err != nil {
			return nil, err
		}
		t.add(reply.More)
		if reply.ID == c.letter.ID {
			return response(r, reply), nil
		}
		t.log.Debug("another agent has used this number", "number", c.letter.Number)
	}
}

// readBody reads a request's body and closes it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(r.Body, maxContent+1))
	if err == nil && len(body) > maxContent {
		err = fmt.Errorf("%w: %s %s has more than %d bytes", ErrTooLarge, r.Method, r.URL.Path, maxContent)
	}
	return body, err
}

// begin returns the call for a request: the same one as before if the request repeats it, otherwise one with the next
// number. If there is no URL for the next number, it waits for one.
func (t *Transport) begin(r *http.Request, body []byte) (*call, callID, error) {
	id := identify(r, body)
	for {
		if c, id := t.take(id, r, body); c != nil {
			return c, id, nil
		}
		t.refill(r.Context())
		if err := clock.Pause(r.Context(), refillPause); err != nil {
			return nil, id, fmt.Errorf("mailbox: no URL for another letter: %w", err)
		}
	}
}

func identify(r *http.Request, body []byte) (id callID) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%d\n", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), len(body))
	_, _ = h.Write(body) // a hash never fails
	copy(id[:], h.Sum(nil))
	return id
}

// take returns the call to make and its ID, or nil if there is no slot for it. An equal call that another goroutine
// makes now is a different call.
func (t *Transport) take(id callID, r *http.Request, body []byte) (*call, callID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch c := t.calls[id]; {
	case c == nil:
	case c.busy:
		_, _ = rand.Read(id[:]) // never fails
	case !expired(c.slot, now):
		c.busy = true
		return c, id
	default: // its letter or its answer is out of reach; the call can be repeated
		delete(t.calls, id)
	}
	for ; t.next <= t.have; t.next++ {
		slot, ok := t.slots[t.next]
		delete(t.slots, t.next)
		if !ok || expired(slot, now) {
			continue
		}
		t.forget(now)
		c := &call{busy: true, slot: slot, letter: Letter{
			Number: t.next, ID: rand.Text(), Method: r.Method, Target: r.URL.RequestURI(), Body: body,
			Header: someHeaders(r.Header), Have: t.have,
		}}
		c.letter.Until = t.firstExpiry(slot)
		t.next++
		t.calls[id] = c
		c.letter.Below = t.below()
		return c, id
	}
	return nil, id
}

func expired(s Slot, now time.Time) bool { return now.Add(slotMargin).After(s.expires()) }

// forget drops calls without a waiting caller for a long time.
func (t *Transport) forget(now time.Time) {
	maps.DeleteFunc(t.calls, func(_ callID, c *call) bool { return !c.busy && now.Sub(c.left) > forgetAfter })
}

// firstExpiry returns when the first of the slots expires, including s.
func (t *Transport) firstExpiry(s Slot) time.Time {
	first := s.expires()
	for _, other := range t.slots {
		if at := other.expires(); at.Before(first) {
			first = at
		}
	}
	return first
}

// below returns the lowest number of a call without an answer.
func (t *Transport) below() int {
	lowest := t.next
	for _, other := range t.calls {
		lowest = min(lowest, other.letter.Number)
	}
	return lowest
}

// end notes that no caller waits for a call any more, or that it has its answer.
func (t *Transport) end(id callID, c *call, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.busy, c.left = false, time.Now()
	if t.calls[id] == c && answered {
		delete(t.calls, id)
	}
}

// exchange puts the letter of a call and waits for the answer.
func (t *Transport) exchange(ctx context.Context, c *call) (*Reply, error) {
	for pause := firstLook; ; pause = min(pause*3/2, maxLook) {
		slot := t.slotOf(c)
		if c.put {
			reply, err := t.look(ctx, slot)
			if err != nil {
				t.log.Debug("cannot look for an answer", "number", slot.Number, "err", err)
			}
			if reply != nil {
				return reply, nil
			}
		}
		if !c.put || time.Since(c.since) > putAgain {
			if err := t.post(ctx, slot, c); err != nil {
				t.log.Debug("cannot put a letter", "number", slot.Number, "err", err)
				if errors.Is(err, ErrTooLarge) {
					return nil, err
				}
			}
		}
		if err := clock.Pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (t *Transport) slotOf(c *call) Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.slot
}

// post puts a letter. The bucket refuses it if it is already there, which also means that it was put.
func (t *Transport) post(ctx context.Context, slot Slot, c *call) error {
	sealed, err := t.address.Key.Seal(InName(t.address.Mailbox, t.rank, slot.Number), c.letter)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	req, err := slot.Put.Request(ctx, bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		return err
	}
	resp, err := t.bucket.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	drain(resp)
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusConflict, http.StatusPreconditionFailed: // as the stores refuse a second put
	default:
		if resp.StatusCode >= http.StatusMultipleChoices {
			return fmt.Errorf("mailbox: put letter %d: %s", slot.Number, resp.Status)
		}
	}
	c.put, c.since = true, time.Now()
	return nil
}

// look returns the answer to a letter, or nil if there is none yet.
func (t *Transport) look(ctx context.Context, slot Slot) (*Reply, error) {
	body, found, err := t.get(ctx, slot.Get)
	if err != nil || !found {
		return nil, err
	}
	var reply Reply
	return &reply, t.address.Key.Open(OutName(t.address.Mailbox, t.rank, slot.Number), body, &reply)
}

// get reads an object. found is false if it is not there: a signer without the right to list gets 403 for that.
func (t *Transport) get(ctx context.Context, g grant.Grant) (body []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	req, err := g.Request(ctx, nil, 0)
	if err != nil {
		return nil, false, err
	}
	resp, err := t.bucket.Do(req)
	if err != nil {
		return nil, false, grant.Redact(err)
	}
	defer drain(resp)
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusForbidden:
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("mailbox: get: %s", resp.Status)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, MaxLetter+1))
	return body, err == nil, err
}

// refill looks for the answers to calls without a waiting caller, because they contain more URLs.
func (t *Transport) refill(ctx context.Context) {
	t.mu.Lock()
	type idle struct {
		id callID
		c  *call
	}
	var all []idle
	for id, c := range t.calls {
		if !c.busy && c.put {
			c.busy = true
			all = append(all, idle{id, c})
		}
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b idle) int { return a.c.letter.Number - b.c.letter.Number })
	for _, i := range all {
		reply, err := t.look(ctx, t.slotOf(i.c))
		if err != nil || reply == nil {
			t.end(i.id, i.c, false)
			continue
		}
		t.add(reply.More)
		t.end(i.id, i.c, true)
	}
}

// drain reads the rest of an answer, so that the connection can be used again.
func drain(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
}

// someHeaders returns the headers that calls of agents need.
func someHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"Authorization", "Content-Type"} {
		if v := h.Get(name); v != "" {
			out[name] = v
		}
	}
	return out
}

// response returns an answer as net/http would.
func response(r *http.Request, reply *Reply) *http.Response {
	resp := &http.Response{
		StatusCode: reply.Status, Status: fmt.Sprintf("%d %s", reply.Status, http.StatusText(reply.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(reply.Body)), ContentLength: int64(len(reply.Body)),
	}
	for name, value := range reply.Header {
		resp.Header.Set(name, value)
	}
	return resp
}
