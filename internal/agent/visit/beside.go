// Package visit serves users who visit a machine while a task runs on it (package tunnel). It runs their commands in
// the task's folder, with the task's environment, in the task's container if it has one, and on a terminal if they
// want one. It also connects them to ports of the machine. It calls the broker through tunnel.Calls and knows the
// task only as a Place.
//
// When a visit ends, everything that it started ends too. When an attempt ends, its visits end.
package visit

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

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
)

// Place is where a visitor's commands run.
type Place struct {
	// Command returns how to start a command; an empty command is a shell. The caller sets Input, Output, Errors and
	// Terminal of the result.
	Command func(command []string, terminal bool, term string) (proc.Spec, error)
	Grace   time.Duration // between SIGTERM and SIGKILL
	// Port is the port on which the task really listens, and Listens the port in its file. They differ for a replica
	// of a service on a shared machine. Both are 0 for other tasks.
	Port, Listens int
}

// port returns the real port of the machine for the port that a visitor requested.
func (p *Place) port(asked int) int {
	if asked == p.Listens && p.Port != 0 {
		return p.Port
	}
	return asked
}

// noConnection explains why a connection to a port failed. If the task listens on another port, the text includes
// that port.
func (p *Place) noConnection(port int, err error) string {
	if p.Port == 0 || port == p.Port {
		return err.Error()
	}
	return fmt.Sprintf("%v; the service listens on port %d", err, p.Port)
}

// Idle is the wall time for which a visit other than a command may be idle.
const Idle = time.Hour

// startsWithin is the maximum time until the user's client sends its command, and leavesWithin the maximum time until
// it disconnects after the command has ended.
const (
	startsWithin = time.Minute
	leavesWithin = 10 * time.Second
)

// errIdle, errOver and errLeft are the reasons why a visit ends without an exit code.
var (
	errIdle     = fmt.Errorf("the visit was idle for %v", Idle)
	errFinished = errors.New("the attempt has finished")
	errLeft     = errors.New("left")
)

// visit is a visit that is being served.
type visit struct {
	wire.Visit
	place  Place
	mux    *yamux.Session
	passed atomic.Int64 // time of the last traffic, Unix nanoseconds
}

// Serve serves a visit until it ends, or until ctx ends, which is the end of the attempt. It returns how the visit
// ended.
func Serve(ctx context.Context, calls tunnel.Calls, v wire.Visit, place Place) wire.VisitEnded {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The last messages are sent after ctx has ended.
	conn := tunnel.Connect(context.WithoutCancel(ctx), calls)
	defer conn.Close() //nolint:errcheck // always nil
	mux, err := tunnel.MachineSession(conn)
	if err != nil {
		return wire.VisitEnded{Reason: err.Error()}
	}
	defer mux.Close() //nolint:errcheck // errors show on the connection
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
		err = fmt.Errorf("this agent is older than the broker and does not support visits of kind %q", v.Kind)
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
	return wire.VisitEnded{Reason: publicError(err).Error()}
}

// publicError replaces an error by the reason for the end of a visit that users see.
func publicError(err error) error {
	if errors.Is(err, context.Canceled) {
		return errFinished
	}
	return err
}

func (s *visit) touch() { s.passed.Store(time.Now().UnixNano()) }

// idle ends a visit that has no traffic.
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

// activityReader is a reader that records traffic.
type activityReader struct {
	io.Reader
	s *visit
}

func (t activityReader) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.s.touch()
	}
	return n, err
}

// accept accepts the next stream and checks that it has the given role.
func (s *visit) accept(role tunnel.Role) (*yamux.Stream, tunnel.Lines, error) {
	st, err := s.mux.AcceptStream()
	if err != nil {
		return nil, tunnel.Lines{}, fmt.Errorf("%w: %w", tunnel.ErrEnded, err)
	}
	lines := tunnel.NewLines(st)
	var h tunnel.Header
	_ = st.SetReadDeadline(time.Now().Add(startsWithin))
	if err := lines.Next(&h); err == nil && h.Role != role {
		err = fmt.Errorf("%w: the stream has role %q, expected %q", tunnel.ErrInvalidStream, h.Role, role)
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

// connect connects a stream to the port, until both sides have closed their direction.
func (s *visit) connect(ctx context.Context, st *yamux.Stream, from io.Reader) {
	defer st.Close() //nolint:errcheck // nothing more is sent
	port := s.place.port(s.Port)
	conn, err := (&net.Dialer{Timeout: startsWithin}).DialContext(ctx, "tcp",
		net.JoinHostPort("localhost", strconv.Itoa(port)))
	if err != nil {
		_ = tunnel.WriteLine(st, tunnel.Note{Error: s.place.noConnection(port, err)})
		return
	}
	defer conn.Close() //nolint:errcheck // nothing more is sent
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if tunnel.WriteLine(st, tunnel.Note{}) != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, activityReader{from, s})
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(st, activityReader{conn, s})
	_ = st.Close() // closes only this direction
	<-done
}

// closeAll closes files that are no longer needed.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
