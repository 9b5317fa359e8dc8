package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Processes that come and go, such as functions, each take a number among the processes that read pools now. So no
// two of them read the same partition in a turn (ATC '21, §4). A process keeps its number for a while. After it has
// ended, another process may take the number. If two processes have the same number for a moment, they only conflict
// more often.

// seatFor is how long a number is kept without renewal, and seatEvery the interval of renewals.
const (
	seatFor   = 5 * time.Minute
	seatEvery = time.Minute
)

// seat is the number of this process among all processes that read pools.
type seat struct {
	number, of int
	again      time.Time // when to renew the number
}

// seat returns the number of this process among those that read pools, from the configuration or else from the table.
// A process without a name is the only one.
func (b *Keeper) seat(ctx context.Context, now time.Time) (seat, error) {
	if b.txns.Config.Schedulers > 0 || b.txns.Config.Process == "" {
		return seat{number: b.txns.Config.Scheduler, of: max(b.txns.Config.Schedulers, 1)}, nil
	}
	b.known.mu.Lock()
	at := b.known.seat
	b.known.mu.Unlock()
	if at.of > 0 && now.Before(at.again) {
		return at, nil
	}
	next, err := b.takeSeat(ctx, now)
	if errors.Is(err, store.ErrConflict) { // another process has just taken a number: try again later
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

// takeSeat takes a number, or renews the number of this process.
func (b *Keeper) takeSeat(ctx context.Context, now time.Time) (seat, error) {
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
		number = of("") // a free one
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
