package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// disk is the journal of a bus in a file.
type disk struct {
	file  *bolt.File
	owned bool // close also closes the file
}

func (d *disk) next() uint64 { return d.file.Next() }

func (d *disk) commit(ctx context.Context, c change) error {
	return wrapError(d.file.Commit(ctx, encode(c).apply))
}

func (d *disk) later(c change) error {
	return wrapError(d.file.Defer(encode(c).apply, nil))
}

func (d *disk) close() error {
	if d.owned {
		return d.file.Close()
	}
	if err := d.file.Flush(context.Background()); !errors.Is(err, bolt.ErrClosed) {
		return err
	}
	return nil // the file was closed earlier, which flushed it
}

func (d *disk) read(queue string, taken []delivery) ([]bus.Delivery, error) {
	deliveries := make([]bus.Delivery, 0, len(taken))
	err := d.file.View(func(tx *bolt.Tx) error {
		for _, t := range taken {
			value := tx.Get(messageKey(ref{queue: queue, number: t.number}))
			if value == nil {
				continue
			}
			m, err := decodeMessage(value)
			if err != nil {
				return err
			}
			deliveries = append(deliveries, bus.Delivery{Message: m, Receipt: t.receipt(), Attempt: int(t.attempts)})
		}
		return nil
	})
	return deliveries, wrapError(err)
}

// deadPage is the number of letters that are read in one view. It is limited because commits wait for views.
const deadPage = 256

func (d *disk) dead(ctx context.Context, after letterID, yield func(letter) bool) error {
	if err := d.file.Flush(ctx); err != nil {
		return wrapError(err)
	}
	for more := true; more; {
		more = false
		seen := 0
		err := d.file.View(func(tx *bolt.Tx) error {
			for key, value := range tx.Scan(deadSpace, append(deadKey(after), 0)) {
				if seen == deadPage {
					more = true
					break
				}
				seen++
				l, err := decodeLetter(key, value)
				if err != nil {
					return err
				}
				after = l.id
				if !yield(l) {
					break
				}
			}
			return nil
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return wrapError(err)
		}
	}
	return nil
}

// load calls yield with every message in the file and its state. s.until is the time at which the message may be
// delivered. waiting is true if that time is known and the message is not in flight.
func (d *disk) load(yield func(s state, waiting bool)) error {
	if err := d.file.Flush(context.Background()); err != nil {
		return wrapError(err)
	}
	err := d.file.View(func(tx *bolt.Tx) error {
		for key, value := range tx.Scan(messageSpace, nil) {
			r, err := decodeMessageKey(key)
			if err != nil {
				return err
			}
			s := state{ref: r}
			known := tx.Get(stateKey(r))
			if known == nil {
				if s.until, err = decodeNotBefore(value); err != nil {
					return err
				}
				yield(s, false)
				continue
			}
			if s.attempts, s.until, err = decodeState(known); err != nil {
				return err
			}
			yield(s, s.until != 0)
		}
		return nil
	})
	return wrapError(err)
}

func wrapError(err error) error {
	if errors.Is(err, bolt.ErrClosed) {
		return bus.ErrClosed
	}
	return err
}

// Open returns a bus in its own file, created with mode 0600 if missing. It fails
// with bolt.ErrLocked if another process has it open.
func Open(path string, options bolt.Options, config Config) (*Bus, error) {
	f, err := bolt.OpenFile(path, options)
	if err != nil {
		return nil, err
	}
	b, err := open(&disk{file: f, owned: true}, config)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

// New returns a bus in a file that it shares with other users. Close leaves the file open. A file can have
// at most one bus at a time.
func New(f *bolt.File, config Config) (*Bus, error) {
	return open(&disk{file: f}, config)
}

func open(d *disk, config Config) (*Bus, error) {
	b, err := newBus(config, d)
	if err != nil {
		return nil, err
	}
	lost, err := b.load(d)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	for len(lost) > 0 {
		n := min(len(lost), redriveLetters)
		if err := d.commit(context.Background(), change{bury: b.withLetterIDs(lost[:n])}); err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
		lost = lost[n:]
	}
	return b, nil
}

// load indexes the messages in the file. Messages that were in flight are visible at once, because their
// consumers have ended. It returns those that cannot be delivered any more.
func (b *Bus) load(d *disk) (lost []burial, err error) {
	now := unixNano(b.clock.Now())
	err = d.load(func(s state, waiting bool) {
		bury := burial{ref: s.ref, letter: letterID{at: max(now, 0)}, attempts: int(s.attempts)}
		q := b.queues[s.queue]
		switch {
		case q == nil:
			bury.reason = fmt.Sprintf("queue %q is not configured any more", s.queue)
			lost = append(lost, bury)
		case s.attempts > 0 && !waiting && int(s.attempts) >= q.config.MaxAttempts:
			bury.reason = fmt.Sprintf("the process ended during delivery %d, which was the last", s.attempts)
			lost = append(lost, bury)
		default:
			q.add(now, &entry{number: s.number, until: s.until, attempts: s.attempts, answered: waiting})
		}
	})
	return lost, err
}
