// Package onmachine implements exec, shell and forward on top of a broker connection: they open a visit on the machine
// where a task runs and pass input and output through (package tunnel).
package onmachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Broker is the part of a broker's API that the commands need.
type Broker interface {
	OpenVisit(ctx context.Context, job, task string, v client.Visiting) (*client.Visit, error)
	Job(ctx context.Context, id string) (*apitypes.JobDetail, error)
}

// Target is the machine to visit.
type Target struct {
	Job, Task string
	Rank      int
}

// openVisit is a visit whose machine is connected.
type openVisit struct {
	visit    *client.Visit
	conn     *tunnel.Conn
	mux      *yamux.Session
	reported bool // the machine has reported how the command ended
}

// open opens a visit and waits until the machine connects or the user interrupts.
func open(ctx context.Context, b Broker, w Target, v client.Visiting, p Process) (*openVisit, error) {
	v.Rank = w.Rank
	requested, err := requestVisit(ctx, b, w, v, p)
	if err != nil {
		return nil, err
	}
	g := &openVisit{visit: requested, conn: tunnel.Connect(ctx, requested)}
	if err := g.waitForMachine(ctx, p); err != nil {
		return nil, g.closeAfter(err)
	}
	if g.mux, err = tunnel.UserSession(g.conn); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// requestVisit asks the broker to open a visit, unless the user interrupts first.
func requestVisit(ctx context.Context, b Broker, w Target, v client.Visiting, p Process) (*client.Visit, error) {
	ctx, cancel := command.Within(ctx, p.Interrupted)
	defer cancel()
	return b.OpenVisit(ctx, w.Job, w.Task, v)
}

// quietFor is how long a command waits for the machine before it prints the reason for waiting.
const quietFor = 2 * time.Second

// waitForMachine waits for the machine to connect.
func (g *openVisit) waitForMachine(ctx context.Context, p Process) error {
	met := make(chan error, 1)
	go func() { met <- tunnel.AwaitMachine(g.conn) }()
	timer := time.NewTimer(quietFor)
	defer timer.Stop()
	for {
		select {
		case err := <-met:
			return err
		case <-timer.C:
			line := "waiting for the machine\n"
			if g.visit.Within != "" {
				line = "waiting for the machine, which calls the broker within " + g.visit.Within + "\n"
			}
			if _, err := io.WriteString(p.Err, line); err != nil {
				return err
			}
		case <-p.Interrupted:
			return command.Silent(command.ExitInterrupted)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endWithin is the maximum time to report the end of a visit to the broker.
const endWithin = 5 * time.Second

// close ends the visit.
func (g *openVisit) close() error {
	if g.mux != nil {
		_ = g.mux.Close()
	}
	err := g.conn.Err()
	_ = g.conn.Close()
	if g.reported { // the machine itself reports how it ended
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if end := g.visit.End(ctx); err == nil && client.Status(end) == 0 {
		err = end
	}
	return err
}

// Process is the local input and output of a command.
type Process struct {
	In          io.Reader
	Out, Err    io.Writer
	Interrupted <-chan struct{} // closed when the user interrupts
}

// Exec runs a command next to a task and returns its exit code. A user's interrupt sends SIGINT to the command.
func Exec(ctx context.Context, b Broker, w Target, argv []string, p Process) (int, error) {
	g, err := open(ctx, b, w, client.Visiting{Kind: tunnel.Exec, Command: argv}, p)
	if err != nil {
		return 0, err
	}
	notes := make(chan tunnel.Note, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(notes)
		select {
		case <-p.Interrupted:
			notes <- tunnel.Note{Signal: "INT"}
		case <-done:
		}
	}()
	code, err := g.run(tunnel.Start{Command: argv}, p, notes)
	return code, g.closeAfter(err)
}

// closeAfter closes the visit and returns the reason for its end, unless the result of its command is the reason.
func (g *openVisit) closeAfter(err error) error {
	ended := g.close()
	if err != nil && ended != nil {
		return ended
	}
	return err
}

// run runs a command and passes its input, output and notes through until it has ended.
func (g *openVisit) run(start tunnel.Start, p Process, notes <-chan tunnel.Note) (int, error) {
	control, err := tunnel.Open(g.mux, tunnel.Control)
	if err != nil {
		return 0, err
	}
	defer control.Close() //nolint:errcheck // confirms that all output was received
	if err := tunnel.WriteLine(control, start); err != nil {
		return 0, err
	}
	main, err := tunnel.Open(g.mux, tunnel.Main)
	if err != nil {
		return 0, err
	}
	errs, err := tunnel.Open(g.mux, tunnel.Errors)
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(main, p.In) // the command may stop reading early
		_ = main.Close()
	}()
	go func() {
		for n := range notes {
			if tunnel.WriteLine(control, n) != nil {
				return
			}
		}
	}()
	copied := make(chan error, 2)
	go func() { copied <- drain(p.Out, main) }()
	go func() { copied <- drain(p.Err, errs) }()
	var last tunnel.Note
	err = tunnel.NewLines(control).Next(&last)
	if werr := errors.Join(<-copied, <-copied); err == nil && last.Exit != nil {
		err = werr
	}
	g.reported = last.Exit != nil || last.Error != ""
	switch {
	case err != nil:
		return 0, fmt.Errorf("the connection to the machine broke off: %w", err)
	case last.Error != "":
		return 0, command.Failed("", "%s", last.Error)
	case last.Exit == nil:
		return 0, tunnel.ErrInvalidStream
	}
	return *last.Exit, nil
}

// drain copies to the end, even if writing fails, and returns the write error.
func drain(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = io.Copy(io.Discard, from)
		return err
	}
	return nil
}
