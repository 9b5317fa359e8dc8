// Package local simulates the machines of every cloud on this computer: each is a real process in its own session,
// which runs the agent, with its own directory and loopback address, at the price of the offer that it simulates. A
// Behaviour decides which launches fail and which spot machines are interrupted: none, by a seeded model, by a
// recorded trace, or by a scenario file, in virtual time.
//
// Nothing is lost if the process that called Launch dies. A machine's record is on disk before the machine is
// started, and a lock that its processes inherit shows at any time whether any of them is alive. So a host that was
// killed and opened again on the same directory lists every machine and can terminate it, and never mistakes another
// process for one of these.
//
// It is not a sandbox: tasks run as the user who runs the broker.
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
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/hostnames"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// ErrInUse means that another process has a host on the directory.
var ErrInUse = errors.New("local: directory in use by another broker")

// DefaultMaxMachines is the default for the maximum number of machines at a time.
const DefaultMaxMachines = 256

// Config is the host's configuration. Dir is required; the zero values of the other fields are defaults.
type Config struct {
	Dir string // records, work directories and logs; one host at a time
	// Command is the agent program: agent.Main, in a program that calls proc.Reexec first. If empty, this program's
	// "agent" command.
	Command []string
	// Environ is the environment of the agents, to which the host adds its variables; nil means the environment of
	// this process.
	Environ   []string
	Clock     clock.Clock // clock.System when nil
	Behaviour Behaviour   // None when nil
	// Anew starts the behaviour from the beginning with this host, unless clusters of an earlier host exist.
	// Otherwise the host restores the behaviour's saved state and start time.
	Restart bool
	// Notify is called for interruptions, in advance and when they happen, and for machines whose process ended with
	// an error. The host's goroutines call it at least once for each. It must not wait for Close.
	Notify      func(context.Context, cloud.Notice)
	MaxMachines int // DefaultMaxMachines when 0
	// Outside allows the nodes of a cluster to be on other computers: a machine then has no loopback address of its
	// own, and its agent finds out its address.
	Outside bool
	// Exited is called for machines whose agent ended by itself, with the exit code (-1 after a signal) and the end
	// of the log. May be nil.
	Exited func(cluster string, code int, last string)
	// Extra returns additional environment variables for a launch's agents; may be nil.
	Extra  func(cloud.LaunchSpec) []string
	Grace  time.Duration // real time between SIGTERM and SIGKILL of an agent; 0 means 15 s
	Logger *slog.Logger
}

// Host runs the machines of all clouds on this computer. Its methods are safe for concurrent use.
type Host struct {
	cfg   Config
	log   *slog.Logger
	start time.Time // virtual start time of the first host on the directory
	lock  *os.File

	ctx    context.Context // of interruptions and the watch
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	clusters   map[clusterKey]*cluster
	terminated map[clusterKey]bool // terminated clusters, which must not be launched again
	graves     *os.File            // stores over
}

// clusterKey identifies a cluster. It includes the cloud, because names are unique only within a cloud.
type clusterKey struct{ Cloud, Cluster string }

// New opens a host on cfg.Dir, which it creates if missing, and takes over the machines that an earlier host left
// there.
func New(cfg Config) (*Host, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, log: cfg.Logger, clusters: map[clusterKey]*cluster{}, terminated: map[clusterKey]bool{}}
	if err := h.open(); err != nil {
		h.closeFiles()
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.adopt()
	if err := h.cfg.hosts().Sweep(); err != nil { // names of machines that were killed with an earlier host
		h.log.Warn("cannot remove names of earlier machines", "err", err)
	}
	return h, nil
}

// hosts returns the file to which the agents add names.
func (c *Config) hosts() (file hostnames.File) {
	for _, entry := range c.Environ {
		if path, ok := strings.CutPrefix(entry, agent.EnvHosts+"="); ok {
			file = hostnames.File(path)
		}
	}
	return file
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

// lockTimeout is the time for which a host waits for the lock of its directory.
const lockTimeout = 2 * time.Second

// open locks the directory and reads its content.
func (h *Host) open() error {
	if err := os.MkdirAll(h.clustersDir(), 0o700); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	var err error
	if h.lock, err = os.OpenFile(filepath.Join(h.cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	// An agent that was being started when an earlier host was killed keeps that host's files open for a moment.
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if poll(ctx, func() bool { return tryLock(h.lock, files.Exclusive) }) != nil {
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

// state is the data that a host stores in addition to its clusters.
type state struct {
	Start     time.Time       `json:"start"`               // virtual
	Behaviour json.RawMessage `json:"behaviour,omitempty"` // what a Remembering behaviour saved
}

func (h *Host) statePath() string { return filepath.Join(h.cfg.Dir, "host.json") }

// openState reads the time at which the first host started, or starts a new state.
func (h *Host) openState() error {
	var s state
	b, err := os.ReadFile(h.statePath())
	switch {
	case errors.Is(err, fs.ErrNotExist), h.cfg.Restart && len(h.clusters) == 0:
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
			h.log.Warn("the behaviour cannot restore its state and starts from the beginning", "err", err)
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

// Close releases the machines, which keep running for another host to find. It does not wait for Launch or Terminate.
func (h *Host) Close() error {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
	h.closeFiles()
	return nil
}

// f must end when h.ctx ends.
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

// Clouds returns the names of the clouds that have machines, sorted.
func (h *Host) Clouds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for key := range h.clusters {
		names = append(names, key.Cloud)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Cloud returns the host as a cloud with the given name: it sells that cloud's offers, and lists only those machines.
func (h *Host) Cloud(name string) cloud.Cloud { return view{h, name} }

// view is one cloud as simulated by the host.
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

// typed converts an error of this computer to an error of the cloud.
func (v view) typed(err error) error {
	var e *cloud.Error
	if errors.As(err, &e) {
		named := *e // a behaviour may return the same error several times
		named.Cloud = v.name
		return &named
	}
	return &cloud.Error{Kind: cloud.Transient, Cloud: v.name, Code: "Local", Message: err.Error(), Err: err}
}
