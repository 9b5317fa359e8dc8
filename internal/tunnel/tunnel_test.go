package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// side makes the calls of one side of a tunnel. Some are lost before they are processed, and some afterwards.
type side struct {
	tunneltest.Calls
	fails func() bool
	over  atomic.Bool
}

var errLost = errors.New("lost")

func (s *side) Send(ctx context.Context, offset int64, piece []byte) error {
	if s.over.Load() {
		return tunnel.ErrEnded
	}
	if s.fails() {
		return errLost
	}
	err := s.Calls.Send(ctx, offset, piece)
	if err == nil && s.fails() {
		err = errLost
	}
	return err
}

func (s *side) Receive(ctx context.Context, offset int64, wait time.Duration) ([]byte, error) {
	if s.over.Load() {
		return nil, tunnel.ErrEnded
	}
	if s.fails() {
		return nil, errLost
	}
	piece, err := s.Calls.Receive(ctx, offset, wait)
	if err == nil && s.fails() {
		err = errLost
	}
	return piece, err
}

// TestSentBytesArriveOnce sends bytes by calls that get lost, through two relays with one store, as with two
// functions. Each byte must arrive once.
func TestSentBytesArriveOnce(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1))
		size, lost := 1+random.IntN(300_000), random.Uint32N(4)
		var dice atomic.Uint32
		fails := func() bool { return dice.Add(7)%10 < lost }
		kept := mem.New()
		relays := [2]*relay.Relay{
			relay.New(kept, time.Now, time.Millisecond), relay.New(kept, time.Now, time.Millisecond),
		}
		a := tunnel.Connect(context.Background(), &side{Calls: tunneltest.Calls{Relay: relays[0], Out: "up", In: "down"}, fails: fails})
		b := tunnel.Connect(context.Background(), &side{Calls: tunneltest.Calls{Relay: relays[1], Out: "down", In: "up"}, fails: fails})
		defer a.Close() //nolint:errcheck // a test's
		defer b.Close() //nolint:errcheck // a test's
		said := make([]byte, size)
		for i := range said {
			said[i] = byte(random.Uint32())
		}
		go func() {
			for rest := said; len(rest) > 0; {
				n := min(len(rest), 1+int(random.Uint32N(50_000)))
				_, _ = a.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		heard := make([]byte, size)
		if _, err := io.ReadFull(b, heard); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(said, heard) {
			t.Fatalf("seed %d: the received bytes differ from the sent ones", seed)
		}
	}
}

func TestUnreadStreamBlocksSender(t *testing.T) {
	r := relay.New(mem.New(), time.Now, 0)
	piece := make([]byte, tunnel.MaxPiece)
	var offset int64
	var err error
	for range 2 * tunnel.MaxUnread / tunnel.MaxPiece {
		if err = r.Append(t.Context(), "s", offset, piece); err != nil {
			break
		}
		offset += int64(len(piece))
	}
	if !errors.Is(err, tunnel.ErrBusy) || offset != tunnel.MaxUnread {
		t.Fatalf("after %d unread bytes: %v", offset, err)
	}
	if _, err := r.Take(t.Context(), "s", offset); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(t.Context(), "s", offset, piece); err != nil {
		t.Errorf("everything was read, and still: %v", err)
	}
}

func TestEndedVisitEndsConnection(t *testing.T) {
	s := &side{Calls: tunneltest.Calls{Relay: relay.New(mem.New(), time.Now, 0), Out: "up", In: "down"},
		fails: func() bool { return false }}
	s.over.Store(true)
	c := tunnel.Connect(t.Context(), s)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, tunnel.ErrEnded) {
		t.Errorf("a read ends with %v", err)
	}
	if err := c.Close(); err != nil || !errors.Is(c.Err(), tunnel.ErrEnded) {
		t.Errorf("%v, %v", err, c.Err())
	}
}

// A side closes its direction. It must still receive what the other side sends much later: for example the output of
// a command without input, or of a slow server.
func TestHalfClosedSideStillReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := relay.New(mem.New(), time.Now, time.Second)
		here := tunnel.Connect(ctx, tunneltest.Calls{Relay: r, Out: "up", In: "down"})
		defer here.Close() //nolint:errcheck // a test's
		there := tunnel.Connect(ctx, tunneltest.Calls{Relay: r, Out: "down", In: "up"})
		defer there.Close() //nolint:errcheck // a test's
		go func() {
			machine, err := tunnel.MachineSession(there)
			if err != nil {
				t.Error(err)
				return
			}
			defer machine.Close() //nolint:errcheck // a test's
			st, err := machine.AcceptStream()
			if err != nil {
				t.Error(err)
				return
			}
			asked, err := io.ReadAll(st)
			time.Sleep(10 * time.Minute)
			if _, werr := st.Write(append([]byte("an answer to "), asked...)); err != nil || werr != nil {
				t.Errorf("the machine's side: %v, %v", err, werr)
			}
			_ = st.Close()
			<-ctx.Done()
		}()
		if err := tunnel.AwaitMachine(here); err != nil {
			t.Fatal(err)
		}
		person, err := tunnel.UserSession(here)
		if err != nil {
			t.Fatal(err)
		}
		defer person.Close() //nolint:errcheck // a test's
		st, err := person.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write([]byte("a question")); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(st); err != nil || string(got) != "an answer to a question" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
