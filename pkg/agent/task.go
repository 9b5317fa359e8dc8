package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/pkg/agent/container"
	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// MarkerName is the file in the agent's directory that exists while processes of a task may.
const MarkerName = "task-running"

// exitError is a script that ended with another code than 0.
type exitError struct{ proc.Exit }

func (e *exitError) Error() string {
	switch {
	case e.Signal == syscall.SIGKILL:
		return "killed (SIGKILL): out of memory?"
	case e.Signal != 0:
		return "killed by signal " + strconv.Itoa(int(e.Signal)) + ": " + e.Signal.String()
	}
	return "exit code " + strconv.Itoa(e.Code)
}

// setup runs the set-up script to its end.
func (t *attempt) setup() error {
	if t.work.Setup == "" {
		return nil
	}
	s, err := t.start("setup", t.work.Setup)
	if err != nil {
		return err
	}
	select {
	case <-s.Done():
	case <-t.unlessOrdered.Done():
		s.Terminate(t.cfg.Grace)
	case err := <-t.mounts.lost:
		return t.endOf(s, err)
	}
	return s.end()
}

// endOf ends a script for a reason that counts for more than how it ends.
func (t *attempt) endOf(s *script, reason error) error {
	t.out.note(reason.Error())
	s.Terminate(t.cfg.Grace)
	_ = s.end()
	return reason
}

// runTask runs the task's command, saving checkpoints meanwhile. stopped says that it was ended by an order.
func (t *attempt) runTask() (stopped bool, err error) {
	if t.work.Run == "" {
		t.reports.add(wire.Report{Event: wire.Started}, nil)
		return false, nil
	}
	s, err := t.start("run", t.work.Run)
	if err != nil {
		return false, err
	}
	if pace := t.work.Pace; pace.Tail > 0 { // calls cost: that it has started goes with the first of its log
		t.reports.soon(wire.Report{Event: wire.Started}, t.out, min(pace.Tail, wire.MaxReportLog),
			min(pace.Log, firstPause)*9/10)
	} else {
		t.reports.add(wire.Report{Event: wire.Started}, nil)
	}
	saver := t.newSaver()
	scheduled, cancel := context.WithCancel(t.unlessOrdered)
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		saver.schedule(scheduled)
	}()
	var lost error
	select {
	case <-s.Done():
	case lost = <-t.mounts.lost:
	case lost = <-t.probe(scheduled):
	case <-t.unlessOrdered.Done():
		select {
		case <-s.Done(): // it had ended before it was told to
		default:
			stopped = true
		}
	}
	cancel()
	defer func() { <-idle }() // the task is told first: a save may take its time to end
	if lost != nil {
		return false, t.endOf(s, lost)
	}
	if !stopped {
		return false, s.end()
	}
	if told, _ := t.ordered(); told == orderSave {
		t.saveAndStop(s, saver, idle)
		return true, nil
	}
	s.Terminate(t.cfg.Grace)
	_ = s.end()
	return true, nil
}

// script is a script that runs.
type script struct {
	*proc.Tree
	read    <-chan struct{} // closed when all of its output is in the log
	machine string
	box     *container.Box // nil for one that runs on the machine itself
	grace   time.Duration  // of what it left behind
	own     func()         // has the agent's user own what the container wrote
}

// boxLinger is how long the engine's client may outlive what it ran.
const boxLinger = 10 * time.Second

// Terminate is that of the tree, which in a container is all that runs there.
func (s *script) Terminate(grace time.Duration) {
	if s.box == nil {
		s.Tree.Terminate(grace)
		return
	}
	go func() {
		s.box.End(grace)
		s.Tree.Terminate(boxLinger)
	}()
}

// end waits for the script's end. It returns an *exitError for another code than 0.
func (s *script) end() error {
	exit, err := s.Wait()
	if errors.Is(err, proc.ErrLost) && s.machine != "" { // what left the task's group before is found by name
		proc.Sweep(proc.MachineEnv, s.machine)
	}
	<-s.read
	if s.box != nil {
		s.box.End(s.grace)
		s.own()
		exit.Signal = syscall.Signal(container.SignalOf(exit.Code))
	}
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return &exitError{exit}
	}
	return nil
}

// start runs a script in the task's directory. It is given to the shell as a file: scripts may be longer than an
// argument, and process lists are for everyone to read.
func (t *attempt) start(name, text string) (*script, error) {
	path := filepath.Join(t.dirs.scripts, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if t.work.Login {
		var err error
		if path, err = t.login(path); err != nil {
			return nil, err
		}
	}
	out, read, err := t.out.pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the task has its own
	spec := proc.Spec{
		Argv: []string{shell(), path}, Dir: t.dirs.work, Env: t.taskEnv(), Output: out,
		Hold: t.cfg.Hold, Marker: t.dirs.marker, Linger: t.cfg.Grace,
	}
	s := &script{read: read, machine: t.cfg.Machine, grace: t.cfg.Grace}
	if t.boxed != nil {
		s.box, s.own = t.boxed.box, t.own
		if spec.Argv, err = s.box.Command(path, t.dirs.work, spec.Env); err != nil {
			return nil, err
		}
		spec.Env = append(s.box.Env(), proc.MachineEnv+"="+t.cfg.Machine)
	}
	s.Tree, err = proc.Start(spec)
	return s, err
}

// shell is the one that SkyPilot's scripts are written for, where there is one. As there, a script goes on after a
// command that failed unless it says otherwise (set -e), and its exit code is that of its last command.
func shell() string {
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// inherited says which variables of the agent's own environment a task gets: those that say where programs, libraries
// and devices are, and how its user writes. Credentials are not among them; a task that needs some names them in its
// own environment, or uses those of the machine it runs on.
func inherited(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH":
		return true
	}
	return slices.ContainsFunc([]string{"LC_", "CUDA_", "NVIDIA_", "TPU_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// taskEnv is the environment of the task's scripts: what is inherited (in a container, what its image says), over that
// what the task asks for, and over that what Tradewind says, under its own names and SkyPilot's.
//
//	TRADEWIND_JOB, _TASK, _ATTEMPT   what runs
//	TRADEWIND_NODE_RANK              0 … nodes-1
//	TRADEWIND_NUM_NODES              how many nodes
//	TRADEWIND_NODES                  their addresses by rank, one a line
//	TRADEWIND_HEAD, _PORT            where the nodes meet: rank 0's address, and a port that all compute alike
//	TRADEWIND_INPUTS                 directory of inputs without a path of their own, and <parent>/ of each
//	TRADEWIND_OUTPUT                 directory of what is to be kept
//	TRADEWIND_CHECKPOINT             directory of what is saved, when the task keeps checkpoints
//	TRADEWIND_RESTORED               1 when that directory was filled from a checkpoint, else 0
//	TRADEWIND_NOTICE                 file that appears when the machine is about to be taken, with the seconds left
//	TRADEWIND_MACHINE                the machine's name
//	TRADEWIND_SERVICE, _REPLICA      the service that the task is a replica of, and its number, from 0
//	PORT                             where it is to listen
//	TRADEWIND_IMAGE_ENTRYPOINT       in a container, a script for sh that runs what the image runs by itself
//	TRADEWIND_IMAGE_WORKDIR          in a container, the working directory of the image
func (t *attempt) taskEnv() []string {
	env := map[string]string{}
	for _, entry := range t.cfg.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && inherited(name) && t.boxed == nil {
			env[name] = value
		}
	}
	env["TMPDIR"] = t.dirs.tmp
	if t.ownHome() {
		env["HOME"] = t.dirs.home
	}
	maps.Copy(env, t.work.Env)
	maps.Copy(env, t.work.Secrets)
	w, nodes := t.work, strings.Join(t.work.Nodes, "\n")
	head := ""
	if len(w.Nodes) > 0 {
		head = w.Nodes[0]
	}
	rank, count := strconv.Itoa(t.claims.Rank), strconv.Itoa(max(len(w.Nodes), 1))
	maps.Copy(env, map[string]string{
		"TRADEWIND_JOB": w.Job, "TRADEWIND_TASK": w.Task, "TRADEWIND_ATTEMPT": w.Attempt,
		"TRADEWIND_NODE_RANK": rank, "TRADEWIND_NUM_NODES": count, "TRADEWIND_NODES": nodes,
		"TRADEWIND_HEAD": head, "TRADEWIND_PORT": port(w.Attempt),
		"TRADEWIND_INPUTS": t.dirs.inputs, "TRADEWIND_OUTPUT": t.dirs.output,
		"TRADEWIND_NOTICE": t.dirs.notice, "TRADEWIND_RESTORED": "0",
		proc.MachineEnv:              t.cfg.Machine,
		"SKYPILOT_NODE_RANK":         rank,
		"SKYPILOT_NODE_IPS":          nodes,
		"SKYPILOT_NUM_NODES":         count,
		"SKYPILOT_SETUP_NODE_RANK":   rank,
		"SKYPILOT_SETUP_NODE_IPS":    nodes,
		"SKYPILOT_TASK_ID":           w.Job + "/" + w.Task,
		"SKYPILOT_TASK_IDS":          w.Job + "/" + w.Task,
		"SKYPILOT_NUM_GPUS_PER_NODE": strconv.Itoa(int(math.Ceil(w.Accelerators))),
	})
	maps.Copy(env, t.gang)
	maps.Copy(env, t.serviceEnv())
	maps.Copy(env, t.imageEnv())
	if c := w.Checkpoint; c != nil {
		env["TRADEWIND_CHECKPOINT"] = t.checkpointDir()
		if c.Restore != "" {
			env["TRADEWIND_RESTORED"] = "1"
		}
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if validName(name) && !strings.ContainsRune(env[name], 0) {
			out = append(out, name+"="+env[name])
		}
	}
	return out
}

// validName says whether a process can have a variable of that name.
func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// port is where the nodes of an attempt meet: the same on all of them, and different ones for attempts that may share
// an address.
func port(attempt string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(attempt))
	return strconv.Itoa(20000 + int(h.Sum32()%10000))
}

// saveAndStop ends a task whose machine will be taken: it is told, by file and by signal, gets most of the time that is
// left to save and end, and what it saved is kept. idle is closed when the save that was under way has ended.
func (t *attempt) saveAndStop(s *script, saver *saver, idle <-chan struct{}) {
	var told time.Time
	until := t.serveOn(s, t.foretell(told))
	for ending := false; !ending; {
		if !until.Equal(told) {
			left := time.Until(until)
			s.Terminate(max(left-saver.reserve(left), 0))
			told = until
		}
		select {
		case <-s.Done():
			ending = true
		case <-t.sooner:
			until = t.foretell(told)
		case <-t.unlessStopped.Done():
			s.Terminate(t.cfg.Grace)
			ending = true
		}
	}
	_ = s.end()
	<-idle
	// Without a deadline: if the machine stays longer than foretold, so much the better; if not, what has no manifest
	// does not count. What was written to mounts comes first: who resumes from the checkpoint counts on it.
	if err := t.mounts.flush(t.unlessStopped); err != nil {
		t.out.note("no checkpoint was saved: " + err.Error())
		t.log.Warn("no checkpoint was saved", "err", err)
		return
	}
	if err := saver.saveLast(t.unlessStopped); err != nil {
		t.out.note("no checkpoint was saved: " + err.Error())
		t.log.Warn("no checkpoint was saved", "err", err)
	}
}

// foretell tells the task by file when its machine will be taken, where that is not what it was told, and returns it.
func (t *attempt) foretell(told time.Time) time.Time {
	_, until := t.ordered()
	if until.Equal(told) {
		return told
	}
	left := time.Until(until)
	t.out.note(fmt.Sprintf("the machine will be taken in %v", left.Round(time.Millisecond)))
	if err := writeNotice(t.dirs.notice, left); err != nil {
		t.log.Warn("cannot write the notice", "err", err)
	}
	return until
}

// writeNotice makes the notice appear at once with all that is in it.
func writeNotice(path string, left time.Duration) error {
	seconds := strconv.Itoa(int(max(left.Seconds(), 0))) // whole ones, which shells can count with
	return atomicfile.Write(path, 0o600, []byte(seconds+"\n"))
}
