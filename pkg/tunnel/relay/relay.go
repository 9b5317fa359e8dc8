// Package relay is what the broker keeps of a visit, on any store: in memory where the broker is one process, in its
// table where each call is answered by another function.
package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/tunnel"
)

// Relay keeps what one side of a visit has sent and the other has not taken: a record a piece. Make one with New.
// It is safe for concurrent use, and by several processes on one store.
type Relay struct {
	store store.Store
	now   func() time.Time
	look  time.Duration

	mu    sync.Mutex
	bells map[string]*bell

	appended atomic.Int64
}

// bell rings once for whoever waits for a stream.
type bell struct {
	rung  chan struct{}
	users int
}

// slowest is, in times of the first pause, the longest between two looks at a stream in which nothing comes.
const slowest = 20

// keepPiece is how long a piece that nobody takes is kept, and sweepEvery after how many pieces such are looked for.
const (
	keepPiece  = time.Hour
	sweepEvery = 256
)

// New makes a relay on a store. Look is how soon a stream that somebody waits for is looked at again, for what other
// processes have sent, and more and more seldom, up to slowest, while nothing comes; 0 where there are none. Wall time.
func New(s store.Store, now func() time.Time, look time.Duration) *Relay {
	return &Relay{store: s, now: now, look: look, bells: map[string]*bell{}}
}

// Side is from whom a stream comes.
type Side string

// The sides.
const (
	FromPerson  Side = "person"
	FromMachine Side = "machine"
)

// Stream is a direction of a visit, by the partition of its pieces.
func Stream(cluster string, visit int, from Side) string {
	return "visit#" + cluster + "#" + strconv.Itoa(visit) + "#" + string(from)
}

func pieceKey(stream string, offset int64) store.Key {
	return store.Key{Partition: stream, Sort: fmt.Sprintf("%016x", offset)}
}

// Append keeps a piece. One that was kept before is kept once. It fails with tunnel.ErrBusy while too much is not
// taken.
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
		err = nil // it is sent again
	}
	if err != nil {
		return err
	}
	r.ring(stream)
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

// Read forgets what lies before an offset and returns what there is from it on, at most about tunnel.MaxAnswer bytes.
// Where there is nothing it waits until there is, or returns nothing when ctx ends or the stream is forgotten.
func (r *Relay) Read(ctx context.Context, stream string, offset int64) ([]byte, error) {
	for pause := r.look; ; pause = min(pause+pause/4, slowest*r.look) {
		rung, done := r.listen(stream)
		// The look itself is not cut short by the end of the wait.
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

// Take returns what there is from an offset on, and forgets what lies before.
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
		case begins > offset+int64(len(out)), len(out) >= tunnel.MaxAnswer: // a piece is missing, or there is enough
		default:
			out = append(out, rec.Body[offset+int64(len(out))-begins:]...)
		}
	}
	if len(read) == 0 {
		return out, nil
	}
	return out, r.store.Commit(ctx, store.Tx{Writes: read})
}

// Forget removes a stream, and has whoever waits for it look again at what it belongs to.
func (r *Relay) Forget(ctx context.Context, stream string) error {
	defer r.ring(stream)
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

// ring wakes whoever waits for a stream.
func (r *Relay) ring(stream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.bells[stream]; ok {
		delete(r.bells, stream)
		close(b.rung)
	}
}

// listen returns a channel that is closed when the stream has more, and a function that gives it back.
func (r *Relay) listen(stream string) (rung <-chan struct{}, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.bells[stream]
	if !ok {
		b = &bell{rung: make(chan struct{})}
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
