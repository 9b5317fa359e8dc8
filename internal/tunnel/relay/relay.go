// Package relay stores the data of visits in the broker, on any store: in memory if the broker is one process, and in
// its table if different functions answer the calls.
package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Relay stores the data that one side of a visit has sent and the other side has not received, one record for each
// piece. Use New to create one. It is safe for concurrent use, also by several processes on one store.
type Relay struct {
	store store.Store
	now   func() time.Time
	look  time.Duration

	mu    sync.Mutex
	bells map[string]*waiters

	appended atomic.Int64
}

// waiters wakes those that wait for a stream, once.
type waiters struct {
	rung  chan struct{}
	users int
}

// maxLookFactor is the maximum pause between two looks at an idle stream, as a multiple of the first pause.
const maxLookFactor = 20

// keepPiece is the time for which a piece is kept that no one receives. Expired pieces are removed each time
// sweepEvery pieces have been added.
const (
	keepPiece  = time.Hour
	sweepEvery = 256
)

// New returns a relay on a store. look is the pause before a waiting reader looks again for pieces that other
// processes have sent. While the stream is idle, the pauses grow up to slowest times look. It is 0 if there is only
// one process. Wall time.
func New(s store.Store, now func() time.Time, look time.Duration) *Relay {
	return &Relay{store: s, now: now, look: look, bells: map[string]*waiters{}}
}

// Side is the side that sends a stream.
type Side string

// The sides.
const (
	FromPerson  Side = "person"
	FromMachine Side = "machine"
)

// Stream returns the name of one direction of a visit, which is the partition of its pieces.
func Stream(cluster string, visit int, from Side) string {
	return "visit#" + cluster + "#" + strconv.Itoa(visit) + "#" + string(from)
}

func pieceKey(stream string, offset int64) store.Key {
	return store.Key{Partition: stream, Sort: fmt.Sprintf("%016x", offset)}
}

// Append stores a piece. A piece that is already stored is not stored again. It returns tunnel.ErrBusy while too much
// has not been received.
func (r *Relay) Append(ctx context.Context, stream string, offset int64, piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	if offset >= tunnel.MaxUnread {
		first, _, err := r.store.Query(ctx, stream, "", store.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(first) > 0 && offset-offsetOf(first[0]) >= tunnel.MaxUnread {
			return tunnel.ErrBusy
		}
	}
	err := r.store.Commit(ctx, store.Tx{Writes: []store.Write{{
		Key: pieceKey(stream, offset), Expect: store.Absent, Body: piece, Expires: r.now().Add(keepPiece),
	}}})
	if errors.Is(err, store.ErrConflict) {
		err = nil // a repeated piece
	}
	if err != nil {
		return err
	}
	r.wake(stream)
	if r.appended.Add(1)%sweepEvery == 0 {
		err = r.store.Sweep(ctx, r.now())
	}
	return err
}

func offsetOf(rec store.Record) int64 {
	n, err := strconv.ParseInt(rec.Key.Sort, 16, 64)
	if err != nil {
		return -1
	}
	return n
}

// Read drops everything before an offset and returns the bytes from there on, at most about tunnel.MaxAnswer bytes.
// If there are none, it waits for some, and returns nothing if ctx ends or the stream is removed.
func (r *Relay) Read(ctx context.Context, stream string, offset int64) ([]byte, error) {
	for pause := r.look; ; pause = min(pause+pause/4, maxLookFactor*r.look) {
		rung, done := r.listen(stream)
		// The end of the wait must not interrupt the look itself.
		piece, err := r.Take(context.WithoutCancel(ctx), stream, offset)
		if err != nil || len(piece) > 0 || ctx.Err() != nil {
			done()
			return piece, err
		}
		again, stop := ctx, context.CancelFunc(func() {})
		if pause > 0 {
			again, stop = context.WithTimeout(ctx, pause)
		}
		over := false
		select {
		case <-rung:
			over = true
		case <-again.Done():
		}
		stop()
		done()
		if over {
			return r.Take(context.WithoutCancel(ctx), stream, offset)
		}
	}
}

// Take returns the bytes from an offset on, and drops everything before it.
func (r *Relay) Take(ctx context.Context, stream string, offset int64) (out []byte, err error) {
	records, _, err := r.store.Query(ctx, stream, "", store.Page{Limit: store.MaxItems})
	if err != nil {
		return nil, err
	}
	var read []store.Write
	for _, rec := range records {
		begins := offsetOf(rec)
		switch end := begins + int64(len(rec.Body)); {
		case end <= offset:
			read = append(read, store.Write{Op: store.Delete, Key: rec.Key, Expect: store.Any})
		case begins > offset+int64(len(out)), len(out) >= tunnel.MaxAnswer: // a piece is missing, or there are enough
		default:
			out = append(out, rec.Body[offset+int64(len(out))-begins:]...)
		}
	}
	if len(read) == 0 {
		return out, nil
	}
	return out, r.store.Commit(ctx, store.Tx{Writes: read})
}

// Forget removes a stream, and wakes its readers so that they check its visit again.
func (r *Relay) Forget(ctx context.Context, stream string) error {
	defer r.wake(stream)
	for {
		records, more, err := r.store.Query(ctx, stream, "", store.Page{Limit: store.MaxItems})
		if err != nil || len(records) == 0 {
			return err
		}
		var tx store.Tx
		for _, rec := range records {
			tx.Writes = append(tx.Writes, store.Write{Op: store.Delete, Key: rec.Key, Expect: store.Any})
		}
		if err := r.store.Commit(ctx, tx); err != nil || !more {
			return err
		}
	}
}

// wake wakes the readers of a stream.
func (r *Relay) wake(stream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.bells[stream]; ok {
		delete(r.bells, stream)
		close(b.rung)
	}
}

// listen returns a channel that is closed when the stream has more, and a function that releases it.
func (r *Relay) listen(stream string) (rung <-chan struct{}, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.bells[stream]
	if !ok {
		b = &waiters{rung: make(chan struct{})}
		r.bells[stream] = b
	}
	b.users++
	return b.rung, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if b.users--; b.users == 0 && r.bells[stream] == b {
			delete(r.bells, stream)
		}
	}
}
