package visit

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hashicorp/yamux"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
)

// command runs the user's command. It returns the exit code once all output has been sent.
func (s *visit) command(ctx context.Context) (int, error) {
	// If ctx ends before the user's client has sent everything, the command stops waiting for it.
	come := context.AfterFunc(ctx, func() { _ = s.mux.Close() })
	defer come()
	control, notes, err := s.accept(tunnel.Control)
	if err != nil {
		return 0, s.causeOr(ctx, err)
	}
	defer control.Close() //nolint:errcheck // nothing more is sent
	var start tunnel.Start
	if err := notes.Next(&start); err != nil {
		return 0, s.causeOr(ctx, err)
	}
	main, input, err := s.accept(tunnel.Main)
	if err != nil {
		return 0, s.causeOr(ctx, err)
	}
	errs, _, err := s.accept(tunnel.Errors)
	if err != nil {
		return 0, s.causeOr(ctx, err)
	}
	if start.Terminal != (tunnel.Kind(s.Kind) == tunnel.Shell) {
		return 0, fmt.Errorf("%w: only a shell has a terminal", tunnel.ErrInvalidStream)
	}
	r := &runningCommand{visit: s, main: main, errs: errs, input: input, clientLeft: make(chan struct{})}
	come()
	exit, err := r.run(ctx, start, notes)
	if err != nil {
		_ = tunnel.WriteLine(control, tunnel.Note{Error: err.Error()})
	} else {
		_ = tunnel.WriteLine(control, tunnel.Note{Exit: &exit.Code})
	}
	select { // the client leaves when it has received the exit code
	case <-r.clientLeft:
	case <-s.mux.CloseChan():
	case <-time.After(leavesWithin):
	}
	return exit.Code, err
}

// causeOr returns the cause of ctx's end (the end of the attempt, or idleness) if ctx has ended, because err then only
// follows from it.
func (s *visit) causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runningCommand is a running command.
type runningCommand struct {
	*visit
	main, errs *yamux.Stream
	input      io.Reader
	tty        *os.File // the machine's side of the terminal
	copied     sync.WaitGroup
	clientLeft chan struct{} // closed when the client sends no more notes, because it leaves
}

// run starts the command and waits for its end.
func (r *runningCommand) run(ctx context.Context, start tunnel.Start, notes tunnel.Lines) (proc.Exit, error) {
	started := false
	defer func() {
		if !started {
			close(r.clientLeft) // no listener was started
		}
	}()
	spec, err := r.place.Command(start.Command, start.Terminal, start.Term)
	if err != nil {
		return proc.Exit{}, err
	}
	tree, err := r.start(spec, start)
	if err != nil {
		return proc.Exit{}, err
	}
	go r.listen(notes, tree)
	started = true
	var cause error
	select {
	case <-tree.Done():
	case <-ctx.Done():
		cause = context.Cause(ctx)
		tree.Terminate(r.place.Grace)
	}
	exit, err := tree.Wait()
	r.copied.Wait()
	if cause != nil &&
		(exit.Terminated || err != nil) { // otherwise the command ended by itself, perhaps ending the attempt
		err = publicError(cause)
	}
	return exit, err
}

// start starts the command with its input and output.
func (r *runningCommand) start(spec proc.Spec, start tunnel.Start) (*proc.Tree, error) {
	if start.Terminal {
		return r.startOnTerminal(spec, start)
	}
	var ends []*os.File // read and write ends of the pipes for input, output and errors
	for range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(ends...)
			return nil, err
		}
		ends = append(ends, read, write)
	}
	spec.Input, spec.Output, spec.Errors = ends[0], ends[3], ends[5]
	tree, err := proc.Start(spec)
	closeAll(ends[0], ends[3], ends[5]) // the command has its own copies
	if err != nil {
		closeAll(ends[1], ends[2], ends[4])
		return nil, err
	}
	go func() {
		_, _ = io.Copy(ends[1], activityReader{r.input, r.visit}) // the command may not read all of it
		_ = ends[1].Close()
	}()
	r.copied.Go(func() { r.copy(r.main, ends[2]) })
	r.copied.Go(func() { r.copy(r.errs, ends[4]) })
	return tree, nil
}

// copy sends a command's output until it ends.
func (r *runningCommand) copy(to *yamux.Stream, from *os.File) {
	_, err := io.Copy(to, activityReader{from, r.visit})
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // the client is gone; the command must not block on its output
	}
	_ = to.Close()
	_ = from.Close()
}

func (r *runningCommand) startOnTerminal(spec proc.Spec, start tunnel.Start) (*proc.Tree, error) {
	tty, theirs, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	if start.Size.Rows > 0 && start.Size.Cols > 0 {
		_ = pty.Setsize(tty, &pty.Winsize{Rows: start.Size.Rows, Cols: start.Size.Cols})
	}
	spec.Input, spec.Output, spec.Terminal = theirs, theirs, true
	tree, err := proc.Start(spec)
	_ = theirs.Close() // the command has its own copy
	if err != nil {
		_ = tty.Close()
		return nil, err
	}
	r.tty = tty
	_ = r.errs.Close()
	go func() { _, _ = io.Copy(tty, activityReader{r.input, r.visit}) }()
	r.copied.Go(func() {
		// Reading ends with EIO when the last process has closed the terminal.
		r.copy(r.main, tty)
	})
	return tree, nil
}

// signals are the signals that a user may send.
var signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
}

// listen obeys the user's notes: window sizes and signals. When there are no more notes, the client has left.
func (r *runningCommand) listen(notes tunnel.Lines, tree *proc.Tree) {
	defer close(r.clientLeft)
	for {
		var n tunnel.Note
		if err := notes.Next(&n); err != nil {
			tree.Terminate(r.place.Grace)
			return
		}
		if n.Size != nil && r.tty != nil {
			_ = pty.Setsize(r.tty, &pty.Winsize{Rows: n.Size.Rows, Cols: n.Size.Cols})
		}
		if sig, known := signals[n.Signal]; known {
			tree.Signal(sig)
		}
	}
}
