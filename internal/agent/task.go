package agent

import (
	"cmp"
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

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// MarkerName is the prefix of the names of files in the agent's directory that exist while processes of a task may
// exist.
const MarkerName = "task-running"

// exitError is a script that ended with an exit code other than 0.
type exitError struct {
	proc.Exit
	used memoryUse
}

func (e *exitError) Error() string {
	return cmp.Or(describeKill(e.Exit, e.used), "exit code "+strconv.Itoa(e.Code))
}

// errTimeout is the failure of an attempt whose setup and run take longer than its timeout.
var errTimeout = errors.New("ended: the timeout of the task has passed")

// startTimeout starts the clock of the attempt's timeout, if it has one. It returns the function that stops it.
func (t *attempt) startTimeout() (stop func()) {
	if t.work.Timeout <= 0 {
		return func() {}
	}
	timer := time.NewTimer(t.work.Timeout)
	t.overtime = timer.C
	return func() { timer.Stop() }
}

// leftOutput is the time for which the end of a script waits for the script's own output, while processes that it
// left still have the log open.
const leftOutput = 200 * time.Millisecond

// endOrLeave waits for a script's end like script.end. Processes that the script has left run on, until endLeft.
func (t *attempt) endOrLeave(s *script) error {
	exit, err := s.Wait()
	if err != nil || exit.Code != 0 || !s.left() {
		return s.end()
	}
	t.left = append(t.left, s)
	select {
	case <-s.read:
	case <-time.After(leftOutput):
	}
	if s.box != nil {
		s.own()
	}
	return nil
}

// left reports whether processes of a script that has ended still run. Those in a container are not known.
func (s *script) left() bool {
	if !s.leave {
		return false
	}
	select {
	case <-s.Done():
		return s.box != nil
	default:
		return true
	}
}

// endLeft ends the processes that scripts of the attempt have left running.
func (t *attempt) endLeft() {
	for _, s := range t.left {
		s.Terminate(t.cfg.Grace)
	}
	for _, s := range t.left {
		_ = s.end()
	}
	t.left = nil
}

// endOf ends a script and returns reason, which is more important than the script's own exit.
func (t *attempt) endOf(s *script, reason error) error {
	t.out.note(reason.Error())
	s.Terminate(t.cfg.Grace)
	_ = s.end()
	return reason
}

// runTask runs the task's command and saves checkpoints meanwhile. stopped reports whether an order ended it.
func (t *attempt) runTask() (stopped bool, err error) {
	if t.work.Run == "" {
		if t.lead == nil {
			t.reports.add(wire.Report{Event: wire.Started}, nil)
		}
		return false, nil
	}
	t.started = time.Now()
	s, err := t.start("run", t.work.Run, t.own(), len(t.work.Nodes) > 1)
	if err != nil {
		return false, err
	}
	if pace := t.work.Pace; t.lead != nil {
		// its chunk's report states that it ran
	} else if pace.Tail > 0 { // calls cost money: the start is reported with the first piece of the log
		t.reports.soon(wire.Report{Event: wire.Started}, t.out, min(pace.Tail, wire.MaxReportLog),
			max(min(pace.Log, firstPause)*9/10, pace.Quiet), pace.Quiet > 0)
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
	case <-s.Exited():
	case lost = <-t.mounts.lost:
	case lost = <-t.probe(scheduled):
	case <-t.overtime:
		lost = errTimeout
	case <-t.unlessOrdered.Done():
		select {
		case <-s.Exited(): // it ended before the order came
		default:
			stopped = true
		}
	}
	cancel()
	defer func() { <-idle }() // end the task first: a checkpoint in progress may take a while
	if lost != nil {
		return false, t.endOf(s, lost)
	}
	if !stopped {
		return false, t.endOrLeave(s)
	}
	if told, _ := t.ordered(); told == orderSave {
		t.saveAndStop(s, saver, idle)
		return true, nil
	}
	s.Terminate(t.cfg.Grace)
	_ = s.end()
	return true, nil
}

// script is a running script.
type script struct {
	*proc.Tree
	leave   bool            // its processes may outlive it
	read    <-chan struct{} // closed when all of its output is in the log
	machine string
	box     *container.Box // nil for one that runs on the machine itself
	grace   time.Duration  // for processes that it leaves running
	own     func()         // gives files that the container wrote to the agent's user
	used    func() memoryUse
	note    func(string)
}

// boxLinger is the maximum time for which the engine's client may outlive the command that it ran.
const boxLinger = 10 * time.Second

// Terminate ends the script's process tree. In a container, it ends every process that runs there.
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

// end waits until the script and all processes that it started have ended. It returns an *exitError for an exit code
// other than 0.
func (s *script) end() error {
	exit, err := s.Wait()
	if errors.Is(s.End(), proc.ErrLost) &&
		s.machine != "" { // find processes that left the task's group by their environment
		proc.Sweep(proc.MachineEnv, s.machine)
	}
	<-s.read
	used := s.used() // while the container still exists
	if s.box != nil {
		s.box.End(s.grace)
		s.own()
		exit.PeakBytes = 0 // of the engine's client
		exit.Signal = syscall.Signal(container.SignalOf(exit.Code))
	}
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return &exitError{exit, used}
	}
	if used.kills > 0 {
		s.note("the kernel killed a process of this task for lack of memory; the task succeeded all the same")
	}
	return nil
}

// place is the working directory of a script, and its home directory unless that is empty.
type place struct{ work, home string }

// own is the task's own place.
func (t *attempt) own() place {
	if t.ownHome() {
		return place{t.dirs.work, t.dirs.home}
	}
	return place{work: t.dirs.work}
}

// start runs a script in a place. The shell gets the script as a file, because a script may be longer than an argument
// can be, and every user can read process lists. If leave is set, processes that a successful script leaves behind keep
// running.
func (t *attempt) start(name, text string, in place, leave bool) (*script, error) {
	path := filepath.Join(t.dirs.scripts, name)
	if err := os.WriteFile(path, []byte(t.namesInContainer()+text), readable); err != nil { //nolint:gosec // see readable
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
	defer out.Close()                                      //nolint:errcheck // the task has its own copy
	isolate, user := t.isolates() && name != setupName, "" // a setup prepares the machine and stays root
	if isolate {
		user = userName()
	}
	spec := proc.Spec{
		Argv: []string{shell(), path}, Dir: in.work, Env: t.taskEnv(user, in.home), Output: out,
		Hold: t.cfg.Hold, Marker: t.dirs.marker + "-" + name, Linger: t.cfg.Grace, Leave: leave,
	}
	s := &script{leave: leave, read: read, machine: t.cfg.Machine, grace: t.cfg.Grace, note: t.out.note}
	if t.boxed != nil {
		s.box, s.own = t.boxed.box, t.chownToAgent
		if spec.Argv, err = s.box.Command(path, in.work, spec.Env); err != nil {
			return nil, err
		}
		spec.Env = append(s.box.Env(), proc.MachineEnv+"="+t.cfg.Machine)
	} else if g := t.controlGroup(); g != nil && !isolate {
		spec.Argv = g.Command(spec.Argv)
	}
	s.used = t.watchMemory(s.box)
	if isolate {
		s.Tree, err = t.startIsolated(spec)
	} else {
		s.Tree, err = proc.Start(spec)
	}
	return s, err
}

// shell returns the path of bash, for which SkyPilot's scripts are written, or of sh if the machine has no bash. As in
// SkyPilot, a script continues after a failed command unless it uses set -e, and its exit code is that of its last
// command.
func shell() string {
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// inherited reports whether a task gets a variable of the agent's own environment. It gets variables that state where
// programs, libraries and devices are, and the user's locale. It does not get credentials: a task that needs some
// names them in its own environment, or uses those of its machine.
func inherited(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH",
		"JAVA_HOME", "SPARK_HOME":
		return true
	}
	return slices.ContainsFunc([]string{"LC_", "CUDA_", "NVIDIA_", "TPU_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// taskEnv returns the environment of the task's scripts. If user or home is not empty, it is the name of their user or
// their home directory. Later
// sources override earlier ones: inherited variables (in a container, those of the image), the task's own variables,
// and Tradewind's variables under its own and SkyPilot's names.
//
//	TRADEWIND_JOB, _TASK, _ATTEMPT   IDs of the job, the task and the attempt
//	TRADEWIND_NODE_RANK              0 … nodes-1
//	TRADEWIND_NUM_NODES              number of nodes
//	TRADEWIND_NODES                  their addresses by rank, one per line
//	TRADEWIND_HEAD, _PORT            rendezvous of the nodes: rank 0's address, and a port that is the same on all
//	                                 nodes
//	TRADEWIND_INPUTS                 directory of inputs that have no path, with a subdirectory for each parent
//	TRADEWIND_OUTPUT                 directory for outputs
//	TRADEWIND_CHECKPOINT             directory that checkpoints save, if the task has checkpoints
//	TRADEWIND_RESTORED               1 if that directory was filled from a checkpoint, else 0
//	TRADEWIND_NOTICE                 file that appears when the machine is about to be taken; it contains the
//	                                 seconds left
//	TRADEWIND_MACHINE                the machine's name
//	TRADEWIND_SERVICE, _REPLICA      the service of which the task is a replica, and the replica's number, from 0
//	PORT                             where the replica must listen
//	TRADEWIND_IMAGE_ENTRYPOINT       in a container, an sh script that runs the image's own entrypoint
//	TRADEWIND_IMAGE_WORKDIR          in a container, the working directory of the image
func (t *attempt) taskEnv(user, home string) []string {
	env := map[string]string{}
	for _, entry := range t.cfg.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && inherited(name) && t.boxed == nil {
			env[name] = value
		}
	}
	if user != "" {
		env["USER"], env["LOGNAME"] = user, user
	}
	env["TMPDIR"] = t.dirs.tmp
	if home != "" {
		env["HOME"] = home
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
		"SKYPILOT_TASK_ID":           w.Job + "_" + w.Task, // without a slash: programs use it in file names
		"SKYPILOT_TASK_IDS":          w.Job + "_" + w.Task,
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

// validName reports whether a process can have a variable of that name.
func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// port returns the port of the rendezvous of an attempt's nodes. It is the same on all of them, and usually different
// for attempts that may share an address.
func port(attempt string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(attempt))
	return strconv.Itoa(20000 + int(h.Sum32()%10000))
}

// saveAndStop ends a task whose machine will be taken. It warns the task by file and by signal, gives it most of the
// remaining time to save and end, and then uploads its checkpoint. idle is closed when a checkpoint that was in
// progress has ended.
func (t *attempt) saveAndStop(s *script, saver *saver, idle <-chan struct{}) {
	var told time.Time
	until := t.serveUntilNeeded(s, t.writeNewNotice(told))
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
			until = t.writeNewNotice(told)
		case <-t.unlessStopped.Done():
			s.Terminate(t.cfg.Grace)
			ending = true
		}
	}
	_ = s.end()
	<-idle
	// There is no deadline: if the machine lives longer than the notice said, the upload can still complete. If it
	// does not, the upload has no manifest and does not count. Mounts are flushed first, because an attempt that
	// resumes from the checkpoint needs their data.
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

// writeNewNotice writes a new time at which the machine will be taken to the task's notice file. It does nothing if
// the task already knows that time (told). It returns the time.
func (t *attempt) writeNewNotice(told time.Time) time.Time {
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

// writeNotice creates the notice file with its whole content, atomically.
func writeNotice(path string, left time.Duration) error {
	seconds := strconv.Itoa(int(max(left.Seconds(), 0))) // whole seconds, for shell arithmetic
	return files.Write(path, readable, []byte(seconds+"\n"))
}
