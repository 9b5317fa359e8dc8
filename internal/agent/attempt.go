package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/cgroup"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/secret"
)

// order is an instruction to end an attempt. A greater order overrides a smaller one.
type order int

const (
	orderNone    order = iota
	orderSave          // save, then stop
	orderStop          // stop and report that
	orderAbandon       // stop without a report
)

// Maximum times that the end of an attempt may take in addition to the end of the task itself.
const (
	flushTimeout = 10 * time.Second // for the rest of the log, before the result
	lastTimeout  = 3 * time.Second  // for reports of an end that was ordered
)

// errEnded is the cause of a phase's context that was cancelled by an order.
var errEnded = errors.New("ended on command")

// attempt is one assignment that the agent works on. execute runs the phases in one goroutine; orders come from the
// agent's loop.
type attempt struct {
	*agent
	work    *wire.Assignment
	lead    *attempt     // the attempt whose chunk this member belongs to; nil if it has its own reports and commands
	mask    *secret.Mask // masks the task's secrets
	dirs    dirs
	out     *taskLog        // nil for stand-ins
	boxed   *containerState // nil if the task runs on the machine itself
	mounts  mounts
	reports *reports
	peers   stage.Peers       // while inputs are staged, if the attempt has several nodes
	began   time.Time         // when a stand-in's clock started
	gang    map[string]string // variables that describe the gang to the task
	// overtime receives a value when the timeout has passed; nil if there is no timeout
	overtime <-chan time.Time
	port     int           // port on which a replica of a service listens; 0 if the task is none
	group    *cgroup.Group // in which the scripts run; nil if there is none
	left     []*script     // that have ended, but not all of their processes
	tried    bool          // to create group
	started  time.Time     // when the command was started
	logShare int64         // maximum size in bytes of the end of its log in the report of its end
	// isolation is the isolation with which the command runs. It is nil before the start, and if the command runs as
	// the agent's user.
	isolation atomic.Pointer[proc.Isolation]

	setupDir      string          // the folder of the worker's setup that the task uses; "" if there is none
	unlessOrdered context.Context // ends with any order
	unlessStopped context.Context // ends with orderStop or orderAbandon
	cancel        [orderAbandon + 1]context.CancelCauseFunc
	done          chan struct{} // closed when the task's processes have ended and the report, if one is wanted, is sent
	sooner        chan struct{} // capacity 1: the time or urgency of orderSave has changed

	mu          sync.Mutex
	order       order
	until       time.Time  // when the machine will be taken; set with orderSave
	replaced    bool       // by another attempt on the same node
	atOnce      bool       // a replica of a service should not serve until the last moment
	kept        bool       // its failure is already reported; see linger
	joined      bool       // the task knows its gang
	updatedGang *wire.Gang // latest update of the gang, if one arrived after the attempt began
}

// begin starts an attempt.
func (a *agent) begin(ctx context.Context, work *wire.Assignment, number int) *attempt {
	t := &attempt{
		agent: a, work: work, done: make(chan struct{}), sooner: make(chan struct{}, 1),
		mask:     secret.NewMask(slices.Collect(maps.Values(work.Secrets))...),
		dirs:     dirsIn(filepath.Join(a.cfg.Dir, "attempts", strconv.Itoa(number))),
		logShare: int64(wire.MaxReportLog / (1 + len(work.Chunk))),
		reports:  newReports(a.client, work.Attempt, a.claims.Rank),
	}
	t.unlessStopped, t.cancel[orderStop] = context.WithCancelCause(ctx)
	t.unlessOrdered, t.cancel[orderSave] = context.WithCancelCause(t.unlessStopped)
	a.log.Info("attempt begins", "task", work.Task, "attempt", work.Attempt)
	a.wg.Go(func() { t.endAgent(t.reports.run(ctx)) })
	a.wg.Go(func() { t.run(ctx) })
	return t
}

// isAttempt reports whether t is the attempt with that name, running or finished.
func (t *attempt) isAttempt(name string) bool { return t != nil && t.work.Attempt == name }

// end ends the attempt and waits until it has ended.
func (t *attempt) end(o order) {
	if t == nil {
		return
	}
	t.giveOrder(o, time.Time{}, false)
	<-t.done
}

// replace ends the attempt because another one replaces it on this node.
func (t *attempt) replace() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.replaced = true
	t.mu.Unlock()
	t.end(orderStop)
}

// endAgent ends the agent with err. It does not if err only means that an attempt has finished which was replaced
// here.
func (t *attempt) endAgent(err error) {
	t.mu.Lock()
	replaced := t.replaced
	t.mu.Unlock()
	if !replaced || !errors.Is(err, ErrFinished) {
		t.fail(err)
	}
}

// save starts to save the task's progress and then stops the task, before the machine is preempted or, with now, at
// once.
// It does not wait.
func (t *attempt) save(left time.Duration, now bool) {
	if t == nil {
		return
	}
	t.giveOrder(orderSave, time.Now().Add(max(left, 0)), now)
}

// noticed is save for a notice that came from the machine's cloud, not from the broker. It also reports the notice.
func (t *attempt) noticed(left time.Duration) {
	if t != nil {
		t.reports.add(wire.Report{Event: wire.NoticeSeen, Notice: left}, nil)
		t.save(left, false)
	}
}

// noticeTolerance is the maximum difference between two notices that count as the same: the machine's own notice, and
// the one that the broker derives from it. The task gets only one SIGTERM for both, because many programs take a
// second SIGTERM to mean that they have no time left at all.
const noticeTolerance = 5 * time.Second

// giveOrder gives an order. If it is the second orderSave, the earlier time counts: a machine that was to be taken
// within minutes may now be taken within seconds.
func (t *attempt) giveOrder(o order, until time.Time, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atOnce = t.atOnce || now
	if o == orderSave && t.order == orderSave {
		if until.Before(t.until.Add(-noticeTolerance)) {
			t.until = until
		}
		select {
		case t.sooner <- struct{}{}:
		default: // a signal is already pending, and its receiver reads the latest state
		}
	}
	if o <= t.order {
		return
	}
	if t.order = o; o == orderSave {
		t.until = until
	}
	t.cancel[orderSave](errEnded)
	if o >= orderStop {
		t.cancel[orderStop](errEnded)
	}
}

func (t *attempt) ordered() (order, time.Time) {
	if t.lead != nil {
		return t.lead.ordered()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.order, t.until
}

// run executes the attempt and reports its result.
func (t *attempt) run(ctx context.Context) {
	defer close(t.done)
	beats, stop := context.WithCancel(ctx)
	t.wg.Go(func() { t.beat(beats) })
	result := t.execute(ctx)
	if len(t.work.Chunk) > 0 && result.Event == wire.Succeeded {
		result.Ran = time.Since(t.started)
		result.Chunk = t.runChunk(ctx)
	}
	stop()
	t.makeRoom(ctx, result)
	switch {
	case result.Event == "": // its success is already reported; see stay
	case t.kept:
		t.conclude(ctx, result, nil)
	default:
		t.conclude(ctx, result, t.out)
	}
}

// conclude reports how the attempt has ended. Unless log is nil, it also sends the end of the log.
func (t *attempt) conclude(ctx context.Context, result wire.Report, log *taskLog) {
	told, _ := t.ordered()
	if told == orderAbandon {
		return
	}
	wait := flushTimeout
	if told != orderNone {
		wait = lastTimeout
	}
	until := time.Now().Add(wait) // for the log; the result then has a separate time
	if log != nil {
		result.LogFrom, result.Log, result.LogTimes = t.endOfLog(ctx, until)
	}
	t.log.Info("attempt ends", "attempt", t.work.Attempt, "event", result.Event, "phase", result.Phase, "exit",
		result.ExitCode)
	var accepted func()
	if t.cfg.Once && result.Keep == 0 {
		accepted = func() { t.fail(fmt.Errorf("%w: its result is reported", ErrFinished)) }
	}
	t.reports.end(result, log, until, accepted)
	if told >= orderStop {
		wait = lastTimeout
		if len(result.Log) > 0 {
			wait += max(time.Until(until), 0)
		}
		last, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_ = t.reports.drain(last)
	}
}

// minFreeBytes is the free disk space, in bytes, below which a failed attempt removes its files.
const minFreeBytes = 4 << 20

// makeRoom removes the files of a failed attempt if the disk is full. No later attempt needs them, and a broker on
// the same disk needs space to record the failure.
func (t *attempt) makeRoom(ctx context.Context, result wire.Report) {
	if result.Event != wire.Failed || stage.Room(t.cfg.Dir, minFreeBytes) == nil {
		return
	}
	// If a mount remained, RemoveAll would delete the objects in the bucket.
	if mount.Clear(ctx, t.cfg.Dir) != nil || mount.ClearAll(ctx, t.dirs.top) != nil {
		return
	}
	for _, dir := range []string{t.dirs.work, t.dirs.inputs, t.dirs.output, t.dirs.tmp, t.dirs.snapshot} {
		if err := os.RemoveAll(dir); err != nil {
			t.log.Warn("cannot remove the files of a failed attempt from a full disk", "err", err)
		}
	}
}

// beat reports that the node is alive.
func (t *attempt) beat(ctx context.Context) {
	if t.work.Pace.Polls {
		return
	}
	for clock.Pause(ctx, cmp.Or(t.work.Pace.Alive, t.cfg.Heartbeat)) == nil {
		t.reports.add(wire.Report{Event: wire.Alive, Progress: t.progress()}, nil)
	}
}

// execute runs the phases and returns the result.
func (t *attempt) execute(ctx context.Context) wire.Report {
	if t.work.Worker != nil {
		return t.runWorker(ctx)
	}
	if t.work.Run == "" && t.work.Setup == "" {
		return t.runStandIn()
	}
	if err := t.prepare(ctx); err != nil {
		return t.failed(wire.PhaseStage, err)
	}
	defer t.mounts.close()
	if t.work.Refused != "" {
		return t.failed(wire.PhaseStage, errors.New(t.work.Refused))
	}
	if err := t.stageAll(t.unlessOrdered); err != nil {
		return t.failed(wire.PhaseStage, err)
	}
	defer t.boxed.close()
	defer t.removeNames()
	defer t.removeControlGroup()
	defer t.endLeft()
	if err := cmp.Or(t.joinGang(), t.choosePort()); err != nil {
		return t.failed(wire.PhaseStage, err)
	}
	defer t.serveGang()()
	defer t.receive()()
	t.out.phase()
	defer t.startTimeout()()
	if err := t.setup(); err != nil {
		return t.linger(ctx, t.failed(wire.PhaseSetup, err))
	}
	t.out.phase()
	if stopped, err := t.runTask(); err != nil || stopped {
		t.flushLeft(ctx)
		report := t.failed(wire.PhaseRun, err)
		if report.Event == wire.Failed {
			t.putOnFailure(t.unlessStopped)
		}
		return t.linger(ctx, report)
	}
	if len(t.work.Nodes) <= 1 {
		t.endLeft()
	}
	if err := t.mounts.flush(t.unlessStopped); err != nil {
		return t.failed(wire.PhaseOutputs, err)
	}
	t.noteUnkept()
	empty, err := t.stageOut(t.unlessStopped)
	if err != nil {
		return t.linger(ctx, t.failed(wire.PhaseOutputs, err))
	}
	return t.stay(ctx, wire.Report{Event: wire.Succeeded, Progress: 1, Empty: empty})
}

// stageAll pulls the image, stages the task's inputs, and then starts the container that uses them.
func (t *attempt) stageAll(ctx context.Context) error {
	if err := t.pull(ctx); err != nil {
		return err
	}
	if err := t.stageIn(ctx); err != nil {
		return err
	}
	return t.startContainer(ctx)
}

// prepare creates the directories and the log.
func (t *attempt) prepare(ctx context.Context) error {
	if err := mount.Clear(ctx, t.cfg.Dir); err != nil { // otherwise RemoveAll would delete objects in a bucket
		return err
	}
	attempts := filepath.Dir(t.dirs.top)
	if err := mount.ClearAll(ctx, attempts); err != nil {
		return err
	}
	if err := files.RemoveAll(attempts); err != nil { // directories of earlier attempts
		return err
	}
	if err := t.dirs.make(); err != nil {
		return err
	}
	out, err := newTaskLog(t.dirs.log, t.client, t.work.Attempt, t.cfg.MaxLog, t.mask)
	if err != nil {
		return err
	}
	t.out = out
	pace := t.work.Pace
	t.wg.Go(func() { t.endAgent(out.ship(ctx, cmp.Or(pace.Log, t.cfg.LogPause), pace.Alive, pace.Quiet)) })
	return nil
}

// failed returns the report of a phase that did not complete: Failed, or Stopped if an order ended it.
func (t *attempt) failed(phase string, err error) wire.Report {
	if told, _ := t.ordered(); told >= orderStop || told == orderSave && phase != wire.PhaseOutputs {
		return wire.Report{Event: wire.Stopped, Progress: t.progress()}
	}
	r := wire.Report{Event: wire.Failed, Phase: phase}
	if errors.Is(err, errTimeout) {
		r.Phase = wire.PhaseTimeout
	}
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		r.ExitCode, r.Message = exit.Code, t.describeExit(exit)
	default:
		r.Fault = faultOf(err)
	}
	if r.Message == "" {
		r.Message = truncate(t.mask.String(fmt.Sprint(err)), tailBytes)
	}
	return r
}

// describeExit returns the message about a script that failed: the signal or limit that ended it, the last lines that
// it printed, and a full disk. It adds to the task's log the parts that the script did not print itself.
func (t *attempt) describeExit(exit *exitError) string {
	lines := []string{describeKill(exit.Exit, exit.used), t.out.lastLines(), ""}
	if stage.Room(t.dirs.top, minFreeBytes) != nil {
		lines[2] = "the disk of its machine is full"
	}
	for _, own := range []string{lines[0], lines[2]} {
		if own != "" {
			t.out.note(own)
		}
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), "\n")
}

// faultOf returns the value of wire.Report.Fault for an attempt that failed because of a full disk or store; otherwise
// "".
func faultOf(err error) string {
	switch {
	case stage.NoSpace(err):
		return wire.FaultStore
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return wire.FaultDisk
	}
	return ""
}

func truncate(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return s
}

// dirs are the directories and files of one attempt.
type dirs struct {
	top, work, home, inputs, output, tmp, snapshot, scripts, mounts string
	notice, marker, log                                             string
}

func dirsIn(top string) dirs {
	in := func(name string) string { return filepath.Join(top, name) }
	return dirs{
		top: top, work: in("work"), home: in("home"), inputs: in("inputs"), output: in("output"), tmp: in("tmp"),
		snapshot: in("snapshot"), scripts: in("scripts"), mounts: in("mounts"),
		notice: in("notice"), marker: filepath.Join(filepath.Dir(filepath.Dir(top)), MarkerName), log: in("log"),
	}
}

func (d dirs) make() error {
	for _, dir := range []string{d.work, d.home, d.inputs, d.output, d.tmp, d.scripts} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}
