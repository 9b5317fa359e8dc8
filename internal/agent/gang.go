package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	g := cmp.Or(t.updatedGang, t.work.Gang)
	t.gang, err = t.writeGang(g)
	t.addNames(g)
	return err
}

// envGroup is SkyPilot's variable with the name of a job group. Its tasks find each other by name.
const envGroup = "SKYPILOT_JOBGROUP_NAME"

// hostLines returns the names of the nodes of a job group, TASK-RANK.GROUP, each after its address.
func (t *attempt) hostLines(g *wire.Gang) (lines []string) {
	group := t.work.Env[envGroup]
	if group == "" || g == nil {
		return nil
	}
	for _, n := range gang.Nodes(g) {
		lines = append(lines, n.Address+" "+n.Name+"."+group+" "+n.Name)
	}
	return lines
}

// addNames makes the names of a job group known on the machine, until removeNames. In a container, a script does that.
func (t *attempt) addNames(g *wire.Gang) {
	lines := t.hostLines(g)
	if len(lines) == 0 || t.boxed != nil {
		return
	}
	if err := t.cfg.Hosts.Set(t.work.Attempt, lines); err != nil {
		t.out.note(fmt.Sprintf("the names of the group's tasks are not known here: %v; "+
			"$TRADEWIND_HOSTS is a file with their addresses", err))
	}
}

// removeNames removes the names that addNames added.
func (t *attempt) removeNames() {
	if t.work.Env[envGroup] == "" || t.work.Gang == nil || t.boxed != nil {
		return
	}
	if err := t.cfg.Hosts.Set(t.work.Attempt, nil); err != nil {
		t.log.Warn("cannot remove the names of a job group", "err", err)
	}
}

// namesInContainer returns the commands that add the names of a job group in the task's container, which has its own
// /etc/hosts.
func (t *attempt) namesInContainer() string {
	lines := t.hostLines(t.work.Gang)
	if len(lines) == 0 || t.boxed == nil || t.boxed.named {
		return ""
	}
	t.boxed.named = true
	return "{ printf '%s\\n' '" + strings.Join(lines, "' '") + "' >>/etc/hosts; } 2>/dev/null ||\n" +
		"  echo \"the names of the group's tasks are not known: /etc/hosts cannot be written\" >&2\n"
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
	t.addNames(g)
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
		Argv: []string{shell(), "-c", command}, Dir: t.dirs.work, Env: t.taskEnv("", t.own().home),
		Output: write, Hold: t.cfg.Hold,
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
