// Package desk is the broker's side of mailboxes: it reads the letters of agents from the bucket, passes them to the
// handler that also serves HTTP, and writes the answers.
//
// The bucket cannot notify a computer without an address, so the desk lists the folder of letters: every Busy while any
// mailbox is open, every Idle otherwise, and more often right after a letter. A call that waits for news, such as an
// agent's poll for work, waits here, so that its answer is written as soon as there is news.
//
// The desk keeps nothing of value in memory. A letter stays in the bucket until its answer is there, so a broker that
// was killed answers it when it is back.
package desk

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/mailbox"
)

// Config of a Desk. Bucket, Handler, Key and Endpoint are required. Times are wall time.
type Config struct {
	Bucket  Bucket
	Handler http.Handler // answers the letters
	Key     []byte       // from which the keys of mailboxes are derived
	// Endpoint is the base URL that the letters' calls name.
	Endpoint string
	// Away is the time for which agents continue without an answer; 0 means DefaultAway.
	Away time.Duration
	// Open returns the mailboxes whose machines may still run. Mailboxes that this process has just opened are also
	// kept. All others are removed.
	Open func(context.Context) (map[string]bool, error)
	// Busy and Idle are the times between two looks into the bucket; 0 is 2 s and 30 s.
	Busy, Idle time.Duration
	Log        *slog.Logger
}

// DefaultAway is the time for which agents continue without an answer, as over HTTP.
const DefaultAway = 10 * time.Minute

// Times and numbers of the desk.
const (
	defaultBusy = 2 * time.Second
	defaultIdle = 30 * time.Second
	quick       = 500 * time.Millisecond // between two looks for quickFor after a letter
	quickFor    = 5 * time.Second
	sweepEvery  = time.Minute
	openFor     = 5 * time.Minute // after its opening, before its records must show that a mailbox is in use
	keepFor     = 5 * time.Minute // after its end, for agents that still learn of it

	first    = 16                 // slots of a rank in a book
	batch    = 32                 // further slots
	lifetime = 7 * 24 * time.Hour // of URLs; stores and credentials may allow less
)

// Desk answers letters. Make one with New.
type Desk struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	opened map[string]time.Time // mailboxes that this process has opened
	open   map[string]bool      // by the last sweep
	below  map[string]int       // by rank: answers below this number are not needed
	busy   map[string]bool      // letters that are being answered
	ended  map[string]time.Time // when a sweep first saw that a mailbox has ended
	last   time.Time            // of the last letter
	lasts  time.Duration        // how long URLs were valid when the last ones were signed; 0 is unknown
	wake   chan struct{}
	looked chan struct{} // closed after the first look
	once   sync.Once
}

// New returns a desk.
func New(cfg Config) *Desk {
	cfg.Away, cfg.Busy, cfg.Idle = cmp.Or(cfg.Away, DefaultAway), cmp.Or(cfg.Busy, defaultBusy),
		cmp.Or(cfg.Idle, defaultIdle)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{cfg: cfg, log: cfg.Log, opened: map[string]time.Time{}, open: map[string]bool{},
		below: map[string]int{}, busy: map[string]bool{}, ended: map[string]time.Time{}, wake: make(chan struct{}, 1),
		looked: make(chan struct{})}
}

// Looked is closed when the letters that were waiting when Run was called are being answered.
func (d *Desk) Looked() <-chan struct{} { return d.looked }

// OpenMailbox writes the book of a mailbox for a number of machines, and returns its address for their boot scripts.
func (d *Desk) OpenMailbox(ctx context.Context, box string, ranks int) (mailbox.Address, error) {
	a := mailbox.Address{Mailbox: box, Key: mailbox.KeyOf(d.cfg.Key, box)}
	d.mu.Lock()
	d.opened[box] = time.Now()
	d.mu.Unlock()
	book := mailbox.Book{Endpoint: d.cfg.Endpoint, Away: d.cfg.Away}
	for rank := range ranks {
		slots, err := d.cfg.Bucket.slots(ctx, box, rank, 1, first, lifetime)
		if err != nil {
			return a, fmt.Errorf("mailbox: URLs for %s: %w", box, err)
		}
		if left := d.measure(slots[0]); left < d.cfg.Away {
			d.log.Warn("the URLs of agents expire before the agents would give up: the credentials end soon",
				"mailbox", box, "left", left.Round(time.Minute))
		}
		book.Ranks = append(book.Ranks, slots)
	}
	sealed, err := a.Key.Seal(mailbox.BookName(box), book)
	if err != nil {
		return a, err
	}
	if err := d.cfg.Bucket.put(ctx, mailbox.BookName(box), sealed); err != nil {
		return a, fmt.Errorf("mailbox: book of %s: %w", box, err)
	}
	a.Book, err = d.cfg.Bucket.link(ctx, mailbox.BookName(box))
	d.Wake()
	return a, err
}

// Wake makes the desk look into the bucket now.
func (d *Desk) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run answers letters until ctx ends. It returns when no call is being answered any more.
func (d *Desk) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	swept, failed := time.Time{}, false
	for {
		err := d.look(ctx, &wg)
		if err == nil && time.Since(swept) >= sweepEvery {
			if err = d.sweep(ctx); err == nil {
				swept = time.Now()
			}
		}
		if err != nil && ctx.Err() == nil && !failed {
			d.log.Warn("cannot read the bucket of messages; trying again", "err", err)
		}
		failed = err != nil
		pause := time.NewTimer(d.pause(time.Now()))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-d.wake:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// pause returns the time until the next look.
func (d *Desk) pause(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.opened, func(_ string, at time.Time) bool { return now.Sub(at) > openFor })
	switch {
	case now.Sub(d.last) < quickFor:
		return min(quick, d.cfg.Busy)
	case len(d.opened) > 0 || len(d.open) > 0:
		return d.cfg.Busy
	}
	return d.cfg.Idle
}

// look lists the letters and answers the new ones in the background.
func (d *Desk) look(ctx context.Context, wg *sync.WaitGroup) error {
	letters, err := d.cfg.Bucket.list(ctx, mailbox.Letters)
	if err != nil {
		return err
	}
	slices.SortFunc(letters, func(a, b object) int { return cmp.Compare(a.name, b.name) })
	for _, l := range letters {
		if !d.take(l.name) {
			continue
		}
		wg.Go(func() {
			defer d.done(l.name)
			d.handle(ctx, l)
		})
	}
	d.once.Do(func() { close(d.looked) })
	return nil
}

// take reports whether this goroutine is to answer a letter.
func (d *Desk) take(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[name] {
		return false
	}
	d.busy[name], d.last = true, time.Now()
	return true
}

func (d *Desk) done(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, name)
}

// handle answers a letter, and removes it when its answer is in the bucket. A letter that was not sealed for its name
// is removed without an answer.
func (d *Desk) handle(ctx context.Context, l object) {
	letter, at, err := d.read(ctx, l)
	switch {
	case missing(err): // answered and removed before, but still listed
		return
	case err != nil && ctx.Err() == nil && badLetter(err):
		d.log.Warn("a message that no agent has written is removed", "name", l.name, "err", err)
		d.removeLetter(ctx, l.name)
		return
	case err != nil:
		d.log.Debug("cannot read a message", "name", l.name, "err", err)
		return
	}
	d.note(at, letter)
	reply := d.answer(ctx, letter)
	if ctx.Err() != nil {
		return // the answer may be one of a broker that stops; the next one answers
	}
	reply.More = d.more(ctx, at, letter, reply.Status)
	if d.send(ctx, at, reply) == nil {
		d.removeLetter(ctx, l.name)
	}
}

// read reads and opens a letter.
func (d *Desk) read(ctx context.Context, l object) (letter mailbox.Letter, at mailbox.Place, err error) {
	at, ok := mailbox.ParseName(l.name)
	if !ok || !at.IsLetter() || l.size > mailbox.MaxLetter {
		return letter, at, fmt.Errorf("%w: %s, %d bytes", errLetter, l.name, l.size)
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	body, err := d.cfg.Bucket.get(ctx, l.name)
	if err != nil {
		return letter, at, err
	}
	if err := mailbox.KeyOf(d.cfg.Key, at.Mailbox).Open(l.name, body, &letter); err != nil {
		return letter, at, fmt.Errorf("%w: %w", errLetter, err)
	}
	if letter.Number != at.Number {
		return letter, at, fmt.Errorf("%w: number %d", errLetter, letter.Number)
	}
	return letter, at, nil
}

// note remembers which answers an agent still needs.
func (d *Desk) note(at mailbox.Place, letter mailbox.Letter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := rankKey(at)
	d.below[key] = max(d.below[key], letter.Below)
}

func rankKey(at mailbox.Place) string { return fmt.Sprintf("%s/%d", at.Mailbox, at.Rank) }

// answer passes the call to the handler.
func (d *Desk) answer(ctx context.Context, l mailbox.Letter) mailbox.Reply {
	reply := mailbox.Reply{Number: l.Number, ID: l.ID, Status: http.StatusBadRequest}
	req, err := http.NewRequestWithContext(ctx, l.Method, d.cfg.Endpoint+l.Target, bytes.NewReader(l.Body))
	if err != nil {
		return reply
	}
	for name, value := range l.Header {
		req.Header.Set(name, value)
	}
	req.RequestURI, req.RemoteAddr = l.Target, "mailbox"
	rec := &recorder{header: http.Header{}}
	d.cfg.Handler.ServeHTTP(rec, req)
	reply.Status, reply.Body, reply.Header = rec.code(), rec.body.Bytes(), map[string]string{}
	for name := range rec.header {
		reply.Header[name] = rec.header.Get(name)
	}
	return reply
}

// more returns further slots for an agent that has few, or whose slots expire, unless the answer ends the agent.
func (d *Desk) more(ctx context.Context, at mailbox.Place, l mailbox.Letter, status int) []mailbox.Slot {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusGone:
		return nil
	}
	from, to := l.Have+1, max(l.Have, l.Number+batch)
	if d.renews(ctx, at, l) {
		from = l.Number // including this one: its answer may be read late
	}
	if from > l.Have && l.Have-l.Number >= batch/2 {
		return nil
	}
	slots, err := d.cfg.Bucket.slots(ctx, at.Mailbox, at.Rank, from, to, lifetime)
	if err != nil {
		d.log.Warn("cannot sign URLs for an agent", "mailbox", at.Mailbox, "err", err)
		return nil
	}
	d.measure(slots[0])
	return slots
}

// renews reports whether the slots of an agent have passed half of their life and new ones would last longer. With
// credentials that end at a fixed time, new ones expire at the same time.
func (d *Desk) renews(ctx context.Context, at mailbox.Place, l mailbox.Letter) bool {
	d.mu.Lock()
	lasts := d.lasts
	d.mu.Unlock()
	if time.Until(l.Until) > lasts/2 && lasts > 0 {
		return false
	}
	slots, err := d.cfg.Bucket.slots(ctx, at.Mailbox, at.Rank, l.Number, l.Number, lifetime)
	if err != nil {
		return false // more reports it
	}
	lasts = d.measure(slots[0])
	return slots[0].Put.Expires.Sub(l.Until) > lasts/4
}

// measure notes how long a slot is valid, and returns it.
func (d *Desk) measure(s mailbox.Slot) time.Duration {
	left := time.Until(s.Put.Expires)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lasts = left
	return left
}

// send writes an answer. It tries again until ctx ends.
func (d *Desk) send(ctx context.Context, at mailbox.Place, r mailbox.Reply) error {
	name := mailbox.OutName(at.Mailbox, at.Rank, at.Number)
	sealed, err := mailbox.KeyOf(d.cfg.Key, at.Mailbox).Seal(name, r)
	if err != nil {
		d.log.Error("an answer does not fit into a message", "mailbox", at.Mailbox, "err", err)
		r.Status, r.Body, r.Header = http.StatusRequestEntityTooLarge, nil, nil
		if sealed, err = mailbox.KeyOf(d.cfg.Key, at.Mailbox).Seal(name, r); err != nil {
			return err
		}
	}
	return again(ctx, func() error { return d.cfg.Bucket.put(ctx, name, sealed) })
}

// removeLetter removes a letter. If that fails, it is answered once more, which is harmless.
func (d *Desk) removeLetter(ctx context.Context, name string) {
	if err := d.cfg.Bucket.remove(ctx, name); err != nil && ctx.Err() == nil {
		d.log.Debug("cannot remove a message", "name", name, "err", err)
	}
}

// again repeats do with pauses until it succeeds or ctx ends.
func again(ctx context.Context, do func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 5*time.Second
	for {
		err := do()
		if err == nil {
			return nil
		}
		if perr := clock.Pause(ctx, pause.NextBackOff()); perr != nil {
			return err
		}
	}
}

// sweep removes the answers that no agent needs and the mailboxes that have ended.
func (d *Desk) sweep(ctx context.Context) error {
	all, err := d.cfg.Bucket.list(ctx, "")
	if err != nil {
		return err
	}
	open, err := d.cfg.Open(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	var old []string
	d.mu.Lock()
	d.open = open
	seen := map[string]bool{}
	for _, o := range all {
		at, ok := mailbox.ParseName(o.name)
		if !ok {
			continue // not ours
		}
		seen[at.Mailbox] = true
		if d.isOld(at, now) && !d.busy[o.name] {
			old = append(old, o.name)
		}
	}
	for box := range open {
		delete(d.ended, box)
	}
	maps.DeleteFunc(d.ended, func(box string, _ time.Time) bool { return !seen[box] })
	maps.DeleteFunc(d.below, func(key string, _ int) bool {
		at, _ := mailbox.ParseName(mailbox.Letters + key + "/00000000")
		return !seen[at.Mailbox]
	})
	d.mu.Unlock()
	for _, name := range old {
		if err := d.cfg.Bucket.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Clear removes all mailboxes. The caller has ended their machines, and Run has returned.
func (d *Desk) Clear(ctx context.Context) error {
	all, err := d.cfg.Bucket.list(ctx, "")
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(clearAtOnce)
	for _, o := range all {
		if _, ok := mailbox.ParseName(o.name); ok {
			group.Go(func() error { return d.cfg.Bucket.remove(ctx, o.name) })
		}
	}
	return group.Wait()
}

// clearAtOnce is the number of objects that Clear removes at once.
const clearAtOnce = 16

// isOld reports whether an object is not needed any more. The lock is held.
func (d *Desk) isOld(at mailbox.Place, now time.Time) bool {
	_, fresh := d.opened[at.Mailbox]
	if d.open[at.Mailbox] || fresh {
		return at.IsReply() && at.Number < d.below[rankKey(at)]
	}
	since, known := d.ended[at.Mailbox]
	if !known {
		d.ended[at.Mailbox] = now
		return false
	}
	return now.Sub(since) >= keepFor
}
