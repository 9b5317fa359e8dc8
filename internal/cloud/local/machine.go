package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Files in a machine's directory.
const (
	lockName     = "lock"     // held by the agent and its supervisors while any of them runs
	identityName = "identity" // the agent's process, once it has its token
	logName      = "agent.log"
	workName     = "work"
)

// machine is one machine of a cluster. Its processes and its directory show whether it is alive; the fields are the
// other facts that the host knows.
type machine struct {
	cluster *cluster
	rank    int
	dir     string

	// guarded by Host.mu
	child bool // started by this host, which therefore learns of its end
	// zero if the agent was never started, or if its host ended before it wrote the agent's identity
	agent  proc.Identity
	ending bool   // being ended by the host
	ended  bool   // no process of it is left
	reason string // why it ended without a request
}

func (m *machine) record() *machineRecord  { return &m.cluster.rec.Machines[m.rank] }
func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// held reports whether any process of the machine is alive.
func (m *machine) held() bool {
	f, err := os.Open(m.path(lockName))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	return !tryLock(f, files.Shared)
}

// registered reports whether the agent ever ran: it has got its token and written its identity.
func (m *machine) registered() bool {
	_, err := os.Stat(m.path(identityName))
	return err == nil
}

// describe returns the machine as a cloud lists it. The caller holds Host.mu.
func (m *machine) describe() cloud.Machine {
	rec := m.cluster.rec
	d := cloud.Machine{ID: m.record().ID, Cluster: rec.Cluster, Rank: m.rank, Offer: rec.Offer, Launched: rec.Launched}
	switch {
	case m.ended:
		d.State, d.Reason = cloud.Terminated, m.reason
	case m.lost():
		d.State, d.Reason = cloud.Terminated, m.lostReason()
	case m.ending || m.record().Taken:
		d.State = cloud.Terminating
	case m.held():
		d.State = cloud.Running
	default:
		d.State = cloud.Pending
	}
	return d
}

// lost reports whether a machine has ended that another host started. This host does not wait for such a machine. The
// caller holds Host.mu.
func (m *machine) lost() bool {
	return !m.ended && !m.child && m.registered() && !m.held()
}

// Reasons why machines end without a request.
const (
	reasonTaken  = "spot-interruption"
	reasonExited = "exited"
)

func (m *machine) lostReason() string {
	if m.record().Taken {
		return reasonTaken
	}
	return reasonExited
}

// start starts the agent, unless the agent runs or has run. Its lock is taken here and inherited, so that it never
// runs without a visible lock.
func (m *machine) start(endpoint, token string, extra []string) error {
	if err := os.MkdirAll(m.path(workName), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(m.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing is written to it
	if !tryLock(lock, files.Exclusive) || m.registered() {
		return nil
	}
	log, err := os.OpenFile(m.path(logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the agent has its own descriptor
	cfg := m.cluster.host.cfg
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...) //nolint:gosec // the broker's own configuration
	cmd.Dir, cmd.Env = m.path(workName), m.environ(slices.Concat(cfg.Environ, extra), endpoint)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(token), log, log
	cmd.ExtraFiles = []*os.File{lock} // descriptor 3
	// signals from the broker's terminal must not reach its machines
	cmd.SysProcAttr = proc.Detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	id, _ := proc.Identify(cmd.Process.Pid) // the process exists at least until reap has waited for it
	m.cluster.host.mu.Lock()
	m.child, m.agent = true, id
	m.cluster.host.mu.Unlock()
	go m.reap(cmd)
	return nil
}

func (m *machine) environ(base []string, endpoint string) []string {
	return append(base,
		agent.EnvEndpoint+"="+endpoint,
		agent.EnvTokenFile+"=-",
		agent.EnvDir+"="+m.path(workName),
		agent.EnvAddress+"="+m.record().Address,
		agent.EnvIdentity+"="+m.path(identityName),
		agent.EnvHold+"=3",
		proc.MachineEnv+"="+m.record().ID,
	)
}

// reap waits for the end of a machine that this host started.
func (m *machine) reap(cmd *exec.Cmd) {
	err := cmd.Wait()
	h := m.cluster.host
	for m.held() { // its supervisor ends the task
		time.Sleep(killRound)
	}
	h.mu.Lock()
	m.ended = true
	asked := m.ending || m.record().Taken
	if m.record().Taken {
		m.reason = reasonTaken
	} else if !asked {
		m.reason = reasonExited + ": " + cmd.ProcessState.String()
	}
	h.mu.Unlock()
	if told := h.cfg.Exited; told != nil && !asked {
		h.background(func() { told(m.cluster.key.Cluster, cmd.ProcessState.ExitCode(), tail(m.path(logName))) })
	}
	if err != nil && !asked {
		level := slog.LevelWarn
		// the attempt had finished when the agent asked for more work
		if cmd.ProcessState.ExitCode() == agent.ExitFinished {
			level = slog.LevelDebug
		}
		h.log.Log(h.ctx, level, "a machine's agent ended by itself", "machine", m.record().ID,
			"exit", cmd.ProcessState.String(), "log", tail(m.path(logName)))
		gone := cloud.Notice{Cluster: m.cluster.key.Cluster, Machine: m.record().ID, Kind: cloud.Taken,
			At: h.cfg.Clock.Now()}
		h.background(func() { h.cfg.Notify(h.ctx, gone) })
	}
}

// Time limits for ending a machine, in addition to the grace period.
const (
	killRound    = 5 * time.Millisecond
	killTimeout  = 10 * time.Second // after SIGKILL
	startTimeout = 5 * time.Second  // until an agent has written its identity
)

// stop ends the machine and everything that its task started: by SIGTERM, and after grace by SIGKILL. It returns when
// all its processes have ended.
func (m *machine) stop(ctx context.Context, grace time.Duration) error {
	if _, err := os.Stat(m.path(lockName)); errors.Is(err, fs.ErrNotExist) {
		m.stopRemoved(ctx, grace)
		return nil
	}
	if err := m.stopAgent(ctx, grace); err != nil {
		return fmt.Errorf("end machine %s: %w", m.record().ID, err)
	}
	if marks, _ := filepath.Glob(filepath.Join(m.path(workName), agent.MarkerName) + "*"); len(marks) > 0 {
		// The agent and its supervisor were killed together. The processes that the task left have the machine's name
		// in their environment.
		proc.Sweep(proc.MachineEnv, m.record().ID)
	}
	return nil
}

// stopRemoved ends a machine whose files were removed while it ran, perhaps with the whole state folder: neither the
// lock nor the identity shows its processes any more. The agent ends the processes of its task. All other processes are
// found by the machine's name in their environment.
func (m *machine) stopRemoved(ctx context.Context, grace time.Duration) {
	m.cluster.host.mu.Lock()
	id := m.agent
	m.cluster.host.mu.Unlock()
	if id.PID == 0 {
		return // it never ran
	}
	ended := func(within time.Duration) {
		bound, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		_ = poll(bound, func() bool { return !id.Alive() })
	}
	if grace > 0 && id.Signal(syscall.SIGTERM) == nil {
		ended(grace)
	}
	if id.Signal(syscall.SIGKILL) == nil {
		ended(killTimeout)
	}
	proc.Sweep(proc.MachineEnv, m.record().ID)
}

// learn reads the identity of an earlier host's agent, in case the agent's files are removed.
func (m *machine) learn() {
	if b, err := os.ReadFile(m.path(identityName)); err == nil {
		_ = json.Unmarshal(b, &m.agent) // otherwise it stays unknown
	}
}

func (m *machine) stopAgent(ctx context.Context, grace time.Duration) error {
	id, err := m.identity(ctx)
	if err != nil {
		return err
	}
	if grace > 0 {
		_ = id.Signal(syscall.SIGTERM)
		if err := m.freed(ctx, grace); !errors.Is(err, errHeld) {
			return err
		}
	}
	_ = id.Signal(syscall.SIGKILL)
	if err := m.freed(ctx, killTimeout); !errors.Is(err, errHeld) {
		return err
	}
	proc.Sweep(proc.MachineEnv, m.record().ID)
	return m.freed(ctx, killTimeout)
}

// errHeld means that a machine's lock is still held.
var errHeld = errors.New("its processes do not end")

// freed waits until no process of the machine is alive.
func (m *machine) freed(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errHeld)
	defer cancel()
	return poll(ctx, func() bool { return !m.held() })
}

// identity returns the agent's process. An agent that has just started may not have written its identity yet.
func (m *machine) identity(ctx context.Context) (id proc.Identity, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errHeld)
	defer cancel()
	err = poll(ctx, func() bool {
		b, err := os.ReadFile(m.path(identityName))
		if err == nil && json.Unmarshal(b, &id) == nil {
			return true
		}
		return !m.held()
	})
	if errors.Is(err, errHeld) { // it hangs at its start: Sweep finds it by its name
		return proc.Identity{}, nil
	}
	return id, err
}

// poll calls ok at growing intervals until it returns true or ctx ends; then it returns ctx's cause.
func poll(ctx context.Context, ok func() bool) error {
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 20*time.Millisecond) {
		if clock.Pause(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// machineID returns a machine's ID, which is unique on this computer.
func machineID(dir string, k clusterKey, rank int) string {
	return fmt.Sprintf("i-%012x-%d", hash(dir, k)&(1<<48-1), rank)
}

// address returns a loopback address for a machine. It is unique on computers that own all of 127/8.
func address(dir string, k clusterKey, rank int) string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	n := hash(dir, k)
	host := int(n>>8)%65536 + rank/250                                                                          //nolint:gosec // small
	return "127." + strconv.Itoa(16+int(n%224)) + "." + strconv.Itoa(host&255) + "." + strconv.Itoa(1+rank%250) //nolint:gosec // small
}

func hash(dir string, k clusterKey) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir + "\x00" + k.Cloud + "\x00" + k.Cluster))
	return mix(h.Sum64(), "", "", 0)
}

// tail returns the end of a log.
func tail(path string) string {
	const most = 2 << 10
	f, err := os.Open(path) //nolint:gosec // our own directory
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, 2)
	}
	b := make([]byte, most)
	n, _ := f.Read(b)
	return strings.ToValidUTF8(string(b[:n]), "?")
}

// removeDir removes a cluster's directory. The record is removed last, so that a cluster that a crash has left half
// removed is still known.
func removeDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := mount.ClearAll(context.Background(), dir); err != nil { // otherwise mounted files would be removed too
		return err
	}
	for _, e := range entries {
		if e.Name() != recordName {
			if err := files.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}
