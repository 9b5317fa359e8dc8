// Package onmachine is what the commands exec, shell and forward do once a broker is found: they open a visit on the
// machine where a task runs and pass on what is typed, printed and sent (package tunnel).
package onmachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/tunnel"
)

// Asked is what is asked of a broker.
type Asked interface {
	OpenVisit(ctx context.Context, job, task string, v client.Visiting) (*client.Visit, error)
	Job(ctx context.Context, id string) (*apitypes.JobDetail, error)
}

// Where is the machine that is meant.
type Where struct {
	Job, Task string
	Rank      int
}

// guest is somebody on a machine.
type guest struct {
	visit *client.Visit
	conn  *tunnel.Conn
	mux   *yamux.Session
	heard bool // how the command has ended
}

// open opens a visit and waits until the machine has come, or the person has had enough.
func open(ctx context.Context, b Asked, w Where, v client.Visiting, p Process) (*guest, error) {
	v.Rank = w.Rank
	visit, err := ask(ctx, b, w, v, p)
	if err != nil {
		return nil, err
	}
	g := &guest{visit: visit, conn: tunnel.Connect(ctx, visit)}
	if err := g.meet(ctx, p); err != nil {
		return nil, g.left(err)
	}
	if g.mux, err = tunnel.Person(g.conn); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// ask has the broker open a visit, unless the person has had enough before it answers.
func ask(ctx context.Context, b Asked, w Where, v client.Visiting, p Process) (*client.Visit, error) {
	ctx, cancel := command.Within(ctx, p.Interrupted)
	defer cancel()
	return b.OpenVisit(ctx, w.Job, w.Task, v)
}

// quietFor is how long a machine may take to come before it is said what is waited for.
const quietFor = 2 * time.Second

// meet waits for the machine.
func (g *guest) meet(ctx context.Context, p Process) error {
	met := make(chan error, 1)
	go func() { met <- tunnel.Met(g.conn) }()
	timer := time.NewTimer(quietFor)
	defer timer.Stop()
	for {
		select {
		case err := <-met:
			return err
		case <-timer.C:
			line := "waiting for the machine\n"
			if g.visit.Within != "" {
				line = "waiting for the machine, which hears of this within " + g.visit.Within + "\n"
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

// endWithin is how long the broker may take to hear that a visit has ended.
const endWithin = 5 * time.Second

// close leaves.
func (g *guest) close() error {
	if g.mux != nil {
		_ = g.mux.Close()
	}
	err := g.conn.Err()
	_ = g.conn.Close()
	if g.heard { // the machine tells how it ended
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if end := g.visit.End(ctx); err == nil && client.Status(end) == 0 {
		err = end
	}
	return err
}

// Process is what a command reads and writes here.
type Process struct {
	In          io.Reader
	Out, Err    io.Writer
	Interrupted <-chan struct{} // closed when the person wants it to end
}

// Exec runs a command beside a task and returns its exit code. When the person interrupts it, it is sent SIGINT.
func Exec(ctx context.Context, b Asked, w Where, argv []string, p Process) (int, error) {
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
	return code, g.left(err)
}

// left leaves, and says why the visit ended where that is not what its command says.
func (g *guest) left(err error) error {
	ended := g.close()
	if err != nil && ended != nil {
		return ended
	}
	return err
}

// run runs a command and passes on its input, output and notes until it has ended.
func (g *guest) run(start tunnel.Start, p Process, notes <-chan tunnel.Note) (int, error) {
	control, err := tunnel.Open(g.mux, tunnel.Control)
	if err != nil {
		return 0, err
	}
	defer control.Close() //nolint:errcheck // it says that all is heard
	if err := tunnel.Say(control, start); err != nil {
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
		_, _ = io.Copy(main, p.In) // it may not want it all
		_ = main.Close()
	}()
	go func() {
		for n := range notes {
			if tunnel.Say(control, n) != nil {
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
	g.heard = last.Exit != nil || last.Error != ""
	switch {
	case err != nil:
		return 0, fmt.Errorf("the connection to the machine broke off: %w", err)
	case last.Error != "":
		return 0, command.Failed("", "%s", last.Error)
	case last.Exit == nil:
		return 0, tunnel.ErrHead
	}
	return *last.Exit, nil
}

// drain copies to the end, though nobody may read it any more, and says whether somebody did.
func drain(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = io.Copy(io.Discard, from)
		return err
	}
	return nil
}
