// Package beside serves people who visit a machine while a task runs on it (package tunnel): it runs their commands in
// the task's folder, with its environment and, where it has one, in its container, on a terminal where they want one,
// and connects them to ports of the machine. It knows the broker by the calls that it is given, and the task by a
// Place.
//
// What a visit started ends with it, and a visit with its attempt.
package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/tunnel"
)

// Place is where a visitor's commands run.
type Place struct {
	// Command is how one is started; an empty one is a shell. Input, Output, Errors and Terminal of what it returns are
	// the caller's to set.
	Command func(command []string, terminal bool, term string) (proc.Spec, error)
	Grace   time.Duration // between SIGTERM and SIGKILL
	// Port is where the task listens in place of Listens, the port that its file says, 0 for neither: of a replica of a
	// service on a machine that others use as well.
	Port, Listens int
}

// port is the one of the machine that a visitor means.
func (p *Place) port(asked int) int {
	if asked == p.Listens && p.Port != 0 {
		return p.Port
	}
	return asked
}

// noConnection says why there is no connection to a port, and where the task listens if that is elsewhere.
func (p *Place) noConnection(port int, err error) string {
	if p.Port == 0 || port == p.Port {
		return err.Error()
	}
	return fmt.Sprintf("%v; the service listens on port %d", err, p.Port)
}

// Idle is how long nothing may pass in a visit that is no command's. Wall time.
const Idle = time.Hour

// startsWithin is how long the person may take to say what is to run, and leavesWithin to leave once it has ended.
const (
	startsWithin = time.Minute
	leavesWithin = 10 * time.Second
)

// errIdle, errOver and errLeft are why a visit ends that has no exit code.
var (
	errIdle = fmt.Errorf("nothing has passed for %v", Idle)
	errOver = errors.New("the attempt is over")
	errLeft = errors.New("left")
)

// visit is one that is served.
type visit struct {
	wire.Visit
	place  Place
	mux    *yamux.Session
	passed atomic.Int64 // when something last did, nanoseconds
}

// Serve serves a visit until it is over, or ctx ends, which is the attempt's end. It returns how it ended.
func Serve(ctx context.Context, calls tunnel.Calls, v wire.Visit, place Place) wire.VisitEnded {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The last words are sent when ctx has ended.
	conn := tunnel.Connect(context.WithoutCancel(ctx), calls)
	defer conn.Close() //nolint:errcheck // it has none
	mux, err := tunnel.Machine(conn)
	if err != nil {
		return wire.VisitEnded{Reason: err.Error()}
	}
	defer mux.Close() //nolint:errcheck // the connection tells
	s := &visit{Visit: v, place: place, mux: mux}
	s.touch()
	go func() {
		<-mux.CloseChan()
		cancel(tunnel.ErrEnded)
	}()
	var code int
	switch tunnel.Kind(v.Kind) {
	case tunnel.Exec, tunnel.Shell:
		if tunnel.Kind(v.Kind) == tunnel.Shell {
			go s.idle(ctx, cancel)
		}
		code, err = s.command(ctx)
	case tunnel.Forward:
		go s.idle(ctx, cancel)
		err = s.forward(ctx)
	default:
		err = fmt.Errorf("this agent knows no visits for %q: it is older than the broker", v.Kind)
	}
	switch {
	case err == nil:
		return wire.VisitEnded{Exit: &code}
	case errors.Is(err, tunnel.ErrEnded):
		err = errLeft
		if lost := conn.Err(); lost != nil && !errors.Is(lost, tunnel.ErrEnded) {
			err = lost
		}
	}
	return wire.VisitEnded{Reason: words(err).Error()}
}

// words are those of why a visit ends.
func words(err error) error {
	if errors.Is(err, context.Canceled) {
		return errOver
	}
	return err
}

func (s *visit) touch() { s.passed.Store(time.Now().UnixNano()) }

// idle ends a visit in which nothing passes.
func (s *visit) idle(ctx context.Context, cancel context.CancelCauseFunc) {
	timer := time.NewTimer(Idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		left := Idle - time.Since(time.Unix(0, s.passed.Load()))
		if left <= 0 {
			cancel(errIdle)
			return
		}
		timer.Reset(left)
	}
}

// touching notes that something passes.
type touching struct {
	io.Reader
	s *visit
}

func (t touching) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.s.touch()
	}
	return n, err
}

// accept takes the next stream, which is to be for a role.
func (s *visit) accept(role tunnel.Role) (*yamux.Stream, tunnel.Lines, error) {
	st, err := s.mux.AcceptStream()
	if err != nil {
		return nil, tunnel.Lines{}, fmt.Errorf("%w: %w", tunnel.ErrEnded, err)
	}
	lines := tunnel.NewLines(st)
	var h tunnel.Header
	_ = st.SetReadDeadline(time.Now().Add(startsWithin))
	if err := lines.Next(&h); err == nil && h.Role != role {
		err = fmt.Errorf("%w: it is for %q, and %q is next", tunnel.ErrHead, h.Role, role)
		return st, lines, errors.Join(err, st.Close())
	}
	_ = st.SetReadDeadline(time.Time{})
	return st, lines, err
}

// forward connects each stream to the port.
func (s *visit) forward(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { _ = s.mux.Close() })
	defer stop()
	for {
		st, lines, err := s.accept(tunnel.Dial)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, tunnel.ErrEnded):
			return err
		case err != nil:
			continue
		}
		open.Go(func() { s.connect(ctx, st, lines) })
	}
}

// connect connects a stream to the port, until both sides have said all.
func (s *visit) connect(ctx context.Context, st *yamux.Stream, from io.Reader) {
	defer st.Close() //nolint:errcheck // nothing is to be said any more
	port := s.place.port(s.Port)
	conn, err := (&net.Dialer{Timeout: startsWithin}).DialContext(ctx, "tcp",
		net.JoinHostPort("localhost", strconv.Itoa(port)))
	if err != nil {
		_ = tunnel.Say(st, tunnel.Note{Error: s.place.noConnection(port, err)})
		return
	}
	defer conn.Close() //nolint:errcheck // nothing is to be said any more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if tunnel.Say(st, tunnel.Note{}) != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, touching{from, s})
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(st, touching{conn, s})
	_ = st.Close() // the other direction goes on
	<-done
}

// closeAll closes files of which nothing more is expected.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
