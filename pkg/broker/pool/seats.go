package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Processes that come and go, as functions do, take a number among those that look at pools now: then no two of them
// look at the same partition in a turn (ATC '21, §4). A number is kept for a while and is another's when its process is
// gone. Two that hold the same for a moment do what any two did before: what one takes first the other finds taken.

// How long a number is kept without a word, and how often its process says that it lives.
const (
	seatFor   = 5 * time.Minute
	seatEvery = time.Minute
)

// seat is which of how many processes this one is.
type seat struct {
	number, of int
	again      time.Time // when to say that it lives
}

// seated says which of how many processes that look at pools this one is, as told by the configuration or else by the
// table. Where it has no name, or the table is asked in vain, it is the only one it knows of.
func (b *Keeper) seated(ctx context.Context, now time.Time) (seat, error) {
	if b.txns.Config.Schedulers > 0 || b.txns.Config.Process == "" {
		return seat{number: b.txns.Config.Scheduler, of: max(b.txns.Config.Schedulers, 1)}, nil
	}
	b.known.mu.Lock()
	at := b.known.seat
	b.known.mu.Unlock()
	if at.of > 0 && now.Before(at.again) {
		return at, nil
	}
	next, err := b.sit(ctx, now)
	if errors.Is(err, store.ErrConflict) { // another sat down at this moment: this one says so in a while
		next, err = seat{number: at.number, of: max(at.of, 1), again: now.Add(b.txns.Config.Pool.Known)}, nil
	}
	if err != nil {
		return seat{}, err
	}
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	b.known.seat = next
	return next, nil
}

// sit takes a number, or keeps the one that this process has.
func (b *Keeper) sit(ctx context.Context, now time.Time) (seat, error) {
	found, err := b.txns.Store.Get(ctx, record.SeatsKey())
	if err != nil {
		return seat{}, err
	}
	var seats record.Seats
	write := store.Write{Key: record.SeatsKey(), Op: store.Put, Expect: store.Absent}
	if len(found) > 0 {
		if err := json.Unmarshal(found[0].Body, &seats); err != nil {
			return seat{}, fmt.Errorf("broker: record %s: %w", found[0].Key, err)
		}
		write.Expect = found[0].Version
	}
	for i := range seats.Taken {
		if now.After(seats.Taken[i].Until) {
			seats.Taken[i] = record.Seat{}
		}
	}
	of := func(process string) int {
		return slices.IndexFunc(seats.Taken, func(s record.Seat) bool { return s.Process == process })
	}
	number := of(b.txns.Config.Process)
	if number < 0 {
		number = of("") // that nobody has
	}
	if number < 0 {
		number = len(seats.Taken)
		seats.Taken = append(seats.Taken, record.Seat{})
	}
	seats.Taken[number] = record.Seat{Process: b.txns.Config.Process, Until: now.Add(seatFor)}
	for len(seats.Taken) > 0 && seats.Taken[len(seats.Taken)-1].Process == "" {
		seats.Taken = seats.Taken[:len(seats.Taken)-1]
	}
	if write.Body, err = json.Marshal(seats); err != nil {
		return seat{}, err
	}
	if err := b.txns.Store.Commit(ctx, store.Tx{Writes: []store.Write{write}}); err != nil {
		return seat{}, err
	}
	return seat{number: number, of: len(seats.Taken), again: now.Add(seatEvery)}, nil
}
