package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// The maximum number of letters, and of bytes, that Redrive moves at a time. Thus a long list of dead letters is
// never in memory.
const (
	redriveLetters = 256
	redriveBytes   = 4 << 20
)

// DeadLetters implements bus.Bus.
func (b *Bus) DeadLetters(ctx context.Context, queue string, limit int) ([]bus.DeadLetter, error) {
	if err := b.expireOf(ctx, queue); err != nil || limit <= 0 {
		return nil, err
	}
	var letters []bus.DeadLetter
	err := b.journal.dead(ctx, letterID{}, func(l letter) bool {
		if queue == "" || l.Queue == queue {
			letters = append(letters, l.DeadLetter)
		}
		return len(letters) < limit
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return letters, nil
}

// Redrive implements bus.Bus.
func (b *Bus) Redrive(ctx context.Context, queue string, ids ...string) (int, error) {
	if err := b.expireOf(ctx, queue); err != nil {
		return 0, err
	}
	b.redriving.Lock()
	defer b.redriving.Unlock()
	redriven := 0
	// Ignore letters that are written while this runs. Otherwise a message that fails at once could be redriven again
	// and again.
	last := b.journal.next()
	for after := (letterID{}); ; {
		letters, through, err := b.nextLetters(ctx, queue, ids, after, last)
		if err != nil {
			return redriven, fmt.Errorf("redrive: %w", err)
		}
		if through == after {
			return redriven, nil
		}
		after = through
		n, err := b.requeue(ctx, letters)
		redriven += n
		if err != nil {
			return redriven, fmt.Errorf("redrive: %w", err)
		}
	}
}

// nextLetters returns the next letters to redrive after the letter after, and the last letter
// that it read; through equals after if there are no more.
func (b *Bus) nextLetters(ctx context.Context, queue string, ids []string, after letterID,
	last uint64) (letters []letter, through letterID, err error) {
	through = after
	size := 0
	err = b.journal.dead(ctx, after, func(l letter) bool {
		through = l.id
		if l.id.number <= last && (queue == "" || l.Queue == queue) && (len(ids) == 0 || slices.Contains(ids, l.ID)) {
			letters = append(letters, l)
			size += len(l.Body)
		}
		return len(letters) < redriveLetters && size < redriveBytes
	})
	return letters, through, err
}

// requeue puts letters back into their queues. It returns the number of letters that had a queue.
func (b *Bus) requeue(ctx context.Context, letters []letter) (int, error) {
	var c change
	for i := range letters {
		l := &letters[i]
		names := []string{l.Queue}
		if b.queues[l.Queue] == nil { // no queue, or one that is no longer configured
			names = b.route[l.Type]
		}
		for _, name := range names {
			c.insert = append(c.insert, stored{ref: ref{queue: name, number: b.journal.next()}, message: &l.Message})
		}
		if len(names) > 0 {
			c.exhume = append(c.exhume, l.id)
		}
	}
	if len(c.exhume) == 0 {
		return 0, nil
	}
	if err := b.journal.commit(ctx, c); err != nil {
		return 0, err
	}
	b.index(b.clock.Now(), c.insert)
	return len(c.exhume), nil
}

// expireOf updates the dead letters of a queue, or of all queues if name is "", to the current time.
func (b *Bus) expireOf(ctx context.Context, name string) error {
	if name != "" {
		q, err := b.queue(ctx, name)
		if err != nil {
			return err
		}
		return b.expire(q)
	}
	if err := b.usable(ctx); err != nil {
		return err
	}
	for _, q := range b.queues { // in any order: letters are ordered by time
		if err := b.expire(q); err != nil {
			return err
		}
	}
	return nil
}
