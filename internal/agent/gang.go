package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/agent/gang"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// joinGang writes the files that describe the gang to the task, and sets the task's variables for it.
func (t *attempt) joinGang() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.joined = true
	t.gang, err = t.writeGang(cmp.Or(t.updatedGang, t.work.Gang))
	return err
}

// updateGang updates the files that describe the gang when one of its members has restarted on other machines. The task
// may read them again. Its environment variables do not change.
func (t *attempt) updateGang(g *wire.Gang) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updatedGang = g
	if !t.joined || g == nil {
		return // joinGang writes it when the task begins
	}
	if _, err := t.writeGang(g); err != nil {
		t.log.Warn("cannot update the task's gang files", "err", err)
	}
}

func (t *attempt) writeGang(g *wire.Gang) (env map[string]string, err error) {
	if g == nil {
		return nil, nil
	}
	files := gang.Files{Dir: t.dirs.scripts}
	if t.boxed == nil { // the agent's program does not exist in a container
		if files.Self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return gang.Write(g, t.claims.Rank, files)
}

// serveGang runs commands for other nodes of the gang while the task runs. The returned function stops that and waits
// until all such commands have ended.
func (t *attempt) serveGang() (end func()) {
	g := t.work.Gang
	if g == nil || len(g.Key) == 0 || t.boxed != nil {
		return func() {}
	}
	own, ok := gang.OwnNode(g, t.claims.Rank)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.unlessOrdered)
	var running sync.WaitGroup
	err := rsh.Serve(ctx, gang.ListenAddress(g, own), g.Key, func(ctx context.Context, command string,
		out io.Writer) (int, error) {
		running.Add(1)
		defer running.Done()
		return t.runFor(ctx, command, out)
	})
	if err != nil { // only matters to programs that start processes on other nodes
		t.log.Warn("other nodes of the gang cannot start programs here", "err", err)
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// runFor runs a command for another node as a part of the task.
func (t *attempt) runFor(ctx context.Context, command string, to io.Writer) (int, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer read.Close() //nolint:errcheck // only read
	tree, err := proc.Start(proc.Spec{
		Argv: []string{shell(), "-c", command}, Dir: t.dirs.work, Env: t.taskEnv(), Output: write, Hold: t.cfg.Hold,
		Linger: t.cfg.Grace,
	})
	_ = write.Close() // the program has its own copy
	if err != nil {
		return 1, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(to, read) // the calling node may have disconnected
		_, _ = io.Copy(io.Discard, read)
	}()
	select {
	case <-tree.Done():
	case <-ctx.Done():
		tree.Terminate(t.cfg.Grace)
	}
	exit, err := tree.Wait()
	<-copied
	if errors.Is(err, proc.ErrLost) {
		proc.Sweep(proc.MachineEnv, t.cfg.Machine)
	}
	return exit.Code, err
}
