// Package local sells the machines of every cloud on this computer: each is a
// real process in a session of its own, running the agent, with a directory and a loopback
// address of its own, priced as the offer it stands for. Launches fail and spot machines are
// interrupted as a Behaviour says: never, by a seeded model, as a recorded trace has it, or
// as a scenario file scripts it, in virtual time.
//
// Nothing is lost with the process that called Launch. A machine's record is on disk before the machine is started, and
// a lock that its processes inherit tells, exactly and at any time, whether any of them is alive; so a
// host that was killed and made again on the same directory lists every machine and can terminate
// it, and never takes another process for one of its own.
//
// It is no sandbox: tasks run as the user who runs the broker.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/flock"
	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// ErrInUse says that another process has a host on the directory.
var ErrInUse = errors.New("local: directory in use by another broker")

// DefaultMaxMachines bounds how many machines there are at a time, unless the configuration does.
const DefaultMaxMachines = 256

// Config is what a host needs to know. Dir is required; zero values of the others are useful.
type Config struct {
	Dir string // records, work directories and logs; one host at a time
	// Command is the agent program: agent.Main, in a program that calls proc.Reexec first. This program's own "agent"
	// command when empty.
	Command []string
	// Environ is the environment of the agents, to which the host adds what they need; this process's when nil.
	Environ   []string
	Clock     clock.Clock // clock.System when nil
	Behaviour Behaviour   // None when nil
	// Anew says that the behaviour begins with this host, should none of an earlier one's clusters be there: what it
	// remembers of those, and since when they were, is for a host that goes on with their work.
	Anew bool
	// Notify is told of interruptions, ahead and when they happen, and of machines whose process ended with an error.
	// Calls come from the host's own goroutines, at least once each; it must not wait for Close.
	Notify      func(context.Context, cloud.Notice)
	MaxMachines int // DefaultMaxMachines when 0
	// Outside says that the nodes of a cluster may be on other computers: a machine has no loopback address of its own
	// then, and its agent finds out by which one it is reached.
	Outside bool
	// Exited is told of machines whose agent ended by itself: with its exit code, -1 by a signal, and the end of its
	// log; nil is not told.
	Exited func(cluster string, code int, last string)
	// Extra is what the environment of a machine's agent has beside Environ, by its launch; nil is nothing.
	Extra  func(cloud.LaunchSpec) []string
	Grace  time.Duration // wall time between SIGTERM and SIGKILL of an agent; 15 s when 0
	Logger *slog.Logger
}

// Host keeps the machines of all clouds on this computer. Its methods are safe for concurrent use.
type Host struct {
	cfg   Config
	log   *slog.Logger
	start time.Time // virtual, of the first host on the directory
	lock  *os.File

	ctx    context.Context // of interruptions and watching
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	clusters map[clusterKey]*cluster
	over     map[clusterKey]bool // terminated, never to be launched again
	graves   *os.File            // where over is kept
}

// clusterKey names a cluster; each cloud has its own names.
type clusterKey struct{ Cloud, Cluster string }

// New opens a host on cfg.Dir, made when missing, and takes charge of the machines that an earlier host left there.
func New(cfg Config) (*Host, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, log: cfg.Logger, clusters: map[clusterKey]*cluster{}, over: map[clusterKey]bool{}}
	if err := h.open(); err != nil {
		h.closeFiles()
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.adopt()
	return h, nil
}

func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("local: no directory")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	c.Dir = dir
	if len(c.Command) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("local: %w", err)
		}
		c.Command = []string{exe, "agent"}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Behaviour == nil {
		c.Behaviour = None{}
	}
	if c.Notify == nil {
		c.Notify = func(context.Context, cloud.Notice) {}
	}
	if c.MaxMachines <= 0 {
		c.MaxMachines = DefaultMaxMachines
	}
	if c.Grace <= 0 {
		c.Grace = 15 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// lockTimeout is how long a host waits for its directory.
const lockTimeout = 2 * time.Second

// open locks the directory and reads what is in it.
func (h *Host) open() error {
	if err := os.MkdirAll(h.clustersDir(), 0o700); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	var err error
	if h.lock, err = os.OpenFile(filepath.Join(h.cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	// An agent that was being started when an earlier host was killed has that host's files open until it has been: a
	// moment.
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if every(ctx, func() bool { return tryLock(h.lock, flock.Exclusive) }) != nil {
		return fmt.Errorf("%w: %s", ErrInUse, h.cfg.Dir)
	}
	if err := h.openGraves(); err != nil {
		return err
	}
	if err := h.readClusters(); err != nil {
		return err
	}
	return h.openState()
}

// state is what a host knows beside its clusters.
type state struct {
	Start     time.Time       `json:"start"`               // virtual
	Behaviour json.RawMessage `json:"behaviour,omitempty"` // what a Remembering behaviour saved
}

func (h *Host) statePath() string { return filepath.Join(h.cfg.Dir, "host.json") }

// openState reads when the first host began, or begins.
func (h *Host) openState() error {
	var s state
	b, err := os.ReadFile(h.statePath())
	switch {
	case errors.Is(err, fs.ErrNotExist), h.cfg.Anew && len(h.clusters) == 0:
		h.start = h.cfg.Clock.Now()
		return h.saveState()
	case err != nil:
		return fmt.Errorf("local: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("local: %s: %w", h.statePath(), err)
	}
	h.start = s.Start
	if r, ok := h.cfg.Behaviour.(Remembering); ok && len(s.Behaviour) > 0 {
		if err := r.Restore(s.Behaviour); err != nil {
			h.log.Warn("the behaviour does not know what it saved; it begins anew", "err", err)
		}
	}
	return nil
}

func (h *Host) saveState() error {
	s := state{Start: h.start}
	if r, ok := h.cfg.Behaviour.(Remembering); ok {
		saved, err := r.Save()
		if err != nil {
			return fmt.Errorf("local: %w", err)
		}
		s.Behaviour = saved
	}
	return writeJSON(h.statePath(), s)
}

func (h *Host) clustersDir() string { return filepath.Join(h.cfg.Dir, "clusters") }

// Close lets go of the machines, which run on, for another host to find. It does not wait for Launch or Terminate.
func (h *Host) Close() error {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
	h.closeFiles()
	return nil
}

// background runs f, which ends with h.ctx, unless the host is closed.
func (h *Host) background(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil {
		h.wg.Go(f)
	}
}

func (h *Host) closeFiles() {
	for _, f := range []*os.File{h.graves, h.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Cloud returns the host under the name of a cloud: it sells that cloud's offers, and knows of those machines only.
func (h *Host) Cloud(name string) cloud.Cloud { return view{h, name} }

// view is a cloud as the host plays it.
type view struct {
	host *Host
	name string
}

func (v view) Name() string { return v.name }

func (v view) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	machines, err := v.host.launch(ctx, v.name, spec)
	if err != nil {
		return nil, v.typed(err)
	}
	return machines, nil
}

func (v view) Terminate(ctx context.Context, name string) error {
	if err := v.host.terminate(ctx, clusterKey{v.name, name}); err != nil {
		return v.typed(err)
	}
	return nil
}

func (v view) Machines(ctx context.Context, name string) ([]cloud.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, v.typed(err)
	}
	v.host.mu.Lock()
	defer v.host.mu.Unlock()
	var out []cloud.Machine
	for key, cl := range v.host.clusters {
		if key.Cloud == v.name && (name == "" || key.Cluster == name) {
			out = append(out, cl.list()...)
		}
	}
	slices.SortFunc(out, func(a, b cloud.Machine) int {
		if a.Cluster != b.Cluster {
			return compare(a.Cluster, b.Cluster)
		}
		return a.Rank - b.Rank
	})
	return out, nil
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// typed makes an error of this computer one of the cloud's.
func (v view) typed(err error) error {
	var e *cloud.Error
	if errors.As(err, &e) {
		named := *e // a behaviour may give the same error to many
		named.Cloud = v.name
		return &named
	}
	return &cloud.Error{Kind: cloud.Transient, Cloud: v.name, Code: "Local", Message: err.Error(), Err: err}
}
