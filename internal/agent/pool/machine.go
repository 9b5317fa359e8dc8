package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Config configures a machine. Endpoint, Pool, Name, Capacity and Dir are required; the other fields have useful zero
// values.
type Config struct {
	Endpoint string // the broker's base URL
	Relay    string // URL at which the agents of this machine call the broker; if empty, the URL that the broker names
	Broker   string // identifies the broker, independent of the endpoint; Endpoint if empty
	Pool     string
	Name     string // of the machine in its pool
	Type     string // instance type that tasks can request
	Labels   map[string]string
	Capacity wire.PoolCapacity
	Dir      string // the machine's own folder, for its token, its agents and their work; one process at a time
	// Invite returns a join token. It is called if the machine has no valid token; nil if it cannot join.
	JoinToken func(ctx context.Context) (string, error)
	// Command is the agent program; if empty, this program's own "agent" command. Environ is its environment; if nil,
	// this process's.
	Command []string
	Environ []string

	HTTPClient *http.Client
	Log        *slog.Logger
	// Tell is called with events for users; may be nil. Several goroutines call it, but one at a time.
	OnEvent func(Event)

	Grace       time.Duration // between SIGTERM and SIGKILL of an agent; 15 s
	LeaveWithin time.Duration // time in which tasks save their work when the machine leaves; 0 means 15 min
	RetryMost   time.Duration // maximum pause between two calls while the broker does not answer; 0 means 15 s
}

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	Joined       EventKind = "joined"
	AgentStarted EventKind = "began"       // an agent was started
	AgentEnded   EventKind = "ended"       // an agent has ended
	AgentFailed  EventKind = "failed"      // an agent could not be started or ended
	Draining     EventKind = "draining"    // the broker sends no new agents
	Resumed      EventKind = "undrained"   // the broker sends new agents again
	Unreachable  EventKind = "unreachable" // the broker does not answer; only sent once
	Reached      EventKind = "reached"     // the broker answers again
	Leaving      EventKind = "leaving"
)

// Event is an event for users.
type Event struct {
	Kind    EventKind
	Job     string // with Began
	Cluster string // with Began, Ended and Failed
	Hold    wire.PoolCapacity
	Running int // agents that still run, with Leaving
	Err     error
}

// Machine is a machine of a pool. Use Open to create one.
type Machine struct {
	cfg        Config
	client     *client
	memory     state
	agents     *agents
	retry      *backoff.ExponentialBackOff
	notifyLock chan struct{} // a lock for Config.Tell

	draining, away bool
	leaveWithin    func() time.Duration // overrides Config.LeaveWithin; nil if it does not
}

// ErrInUse means that another process uses the folder.
var ErrInUse = local.ErrInUse

// Open opens a machine's folder, which it creates if it is missing, and takes over the agents that an earlier process
// started there. It returns ErrInUse if another process uses the folder.
func Open(cfg Config) (*Machine, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	m := &Machine{cfg: cfg, client: newClient(cfg.HTTPClient, cfg.Endpoint), notifyLock: make(chan struct{}, 1),
		retry: backoff.NewExponentialBackOff()}
	m.retry.InitialInterval, m.retry.MaxInterval = min(time.Second, cfg.RetryMost), cfg.RetryMost
	var err error
	if m.agents, err = openAgents(cfg, filepath.Join(cfg.Dir, "agents")); err != nil {
		return nil, err
	}
	if m.memory, err = loadState(cfg.Dir, cfg.Broker, cfg.Pool, cfg.Name); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (c *Config) complete() error {
	for what, value := range map[string]string{"endpoint": c.Endpoint, "pool": c.Pool, "name": c.Name,
		"folder": c.Dir} {
		if value == "" {
			return fmt.Errorf("pool: no %s", what)
		}
	}
	c.Broker = cmp.Or(c.Broker, c.Endpoint)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	c.Dir = dir
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Grace, 15 * time.Second}, {&c.LeaveWithin, 15 * time.Minute}, {&c.RetryMost, 15 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return nil
}

// Close releases the folder. The agents continue to run for the next process on the folder.
func (m *Machine) Close() error { return m.agents.host.Close() }

// Kill ends every agent now, without saving the tasks' work. It may be called while Run is running.
func (m *Machine) Kill(ctx context.Context) error { return m.agents.endAll(ctx) }

// notify calls Config.Tell, one call at a time.
func (m *Machine) notify(e Event) {
	m.notifyLock <- struct{}{}
	defer func() { <-m.notifyLock }()
	m.cfg.OnEvent(e)
}

// Run runs the machine until ctx ends. Then it lets the tasks save their work, waits for that, leaves the pool, and
// returns nil. It returns an error if the broker's answer is final: ErrRefused, ErrRemoved, ErrTaken or ErrReport. In
// both cases all agents have ended when it returns.
func (m *Machine) Run(ctx context.Context) error {
	err := m.run(ctx)
	if err != nil && !isFinal(err) && ctx.Err() == nil {
		return err // a local error: a later process may take over the running agents
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	err = errors.Join(err, m.agents.endAll(end))
	if errors.Is(err, ErrRemoved) {
		err = errors.Join(err, removeState(m.cfg.Dir))
	}
	return err
}

const endWithin = time.Minute

// run syncs until the machine leaves or an error is final.
func (m *Machine) run(ctx context.Context) error {
	if err := m.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it never joined
		}
		return err
	}
	leave := ctx.Done()
	var giveUp <-chan time.Time
	for call := ctx; ; {
		orders, err := m.sync(call, leave == nil)
		pause := orders.After
		switch {
		case call.Err() != nil: // ctx ended meanwhile: leave
		case isFinal(err):
			return err
		case err != nil:
			pause = m.retry.NextBackOff()
			m.unreachable(err)
		default:
			m.reached(orders, leave == nil)
			settled, err := m.obey(call, orders, leave)
			if err != nil && call.Err() == nil {
				return err
			}
			if leave == nil && settled && len(orders.Agents) == 0 {
				return nil
			}
			if orders.Leave && leave != nil {
				leave, call, giveUp = nil, context.WithoutCancel(ctx), time.After(m.cfg.LeaveWithin)
				continue
			}
		}
		timer := time.NewTimer(max(pause, leastPause))
		select {
		case <-timer.C:
		case <-m.agents.changed:
			m.gather(orders.Gather, leave)
		case <-leave:
			leave, call = nil, context.WithoutCancel(ctx)
			giveUp = time.After(m.timeToLeave())
			running, _, _ := m.agents.report(call) // only shown to users
			m.notify(Event{Kind: Leaving, Running: len(running)})
		case <-giveUp:
			timer.Stop()
			return errLeaveTimeout
		}
		timer.Stop()
	}
}

// gather waits for other agents to end, unless the machine leaves.
func (m *Machine) gather(d time.Duration, leave <-chan struct{}) {
	if d <= 0 || leave == nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-leave:
	}
}

// obey makes the running agents match the orders. If syncs should be few, it waits a moment for the agents that must
// end first, instead of leaving their successors to the next sync.
func (m *Machine) obey(ctx context.Context, o wire.PoolOrders, leave <-chan struct{}) (settled bool, err error) {
	settled, err = m.agents.reconcile(ctx, o.Agents, m.notify)
	if settled || err != nil || o.Gather <= 0 || leave == nil {
		return settled, err
	}
	for end := time.After(o.Gather); !settled && err == nil; {
		select {
		case <-m.agents.changed:
			settled, err = m.agents.reconcile(ctx, o.Agents, m.notify)
			continue
		case <-end:
		case <-leave:
		}
		break
	}
	if _, ended, err := m.agents.report(ctx); err == nil && len(ended) > 0 {
		m.agents.notifyChanged() // another agent has ended meanwhile
	}
	return settled, err
}

// timeToLeave is the time in which the tasks can save their work.
func (m *Machine) timeToLeave() time.Duration {
	if m.leaveWithin != nil {
		return cmp.Or(m.leaveWithin(), m.cfg.LeaveWithin)
	}
	return m.cfg.LeaveWithin
}

// errLeaveTimeout means that tasks had no time to save their work.
var errLeaveTimeout = errors.New("pool: some tasks did not save their work in time and were ended")

// leastPause is the minimum pause between two syncs.
const leastPause = 50 * time.Millisecond

func (m *Machine) unreachable(err error) {
	m.cfg.Log.Debug("sync", "err", err)
	if !m.away {
		m.notify(Event{Kind: Unreachable, Err: err})
	}
	m.away = true
}

func (m *Machine) reached(o wire.PoolOrders, leaving bool) {
	m.retry.Reset()
	if m.away {
		m.notify(Event{Kind: Reached})
	}
	if o.Draining != m.draining && !leaving {
		kind := Resumed
		if o.Draining {
			kind = Draining
		}
		m.notify(Event{Kind: kind})
	}
	m.away, m.draining = false, o.Draining
}

// join gets the machine's own token, unless it has one.
func (m *Machine) join(ctx context.Context) error {
	if m.memory.Token.Token != "" {
		m.notify(Event{Kind: Joined})
		return nil
	}
	if m.cfg.JoinToken == nil {
		return fmt.Errorf("%w: the machine has no join token", ErrRefused)
	}
	invitation, err := m.cfg.JoinToken(ctx)
	if err != nil {
		return err
	}
	for {
		token, err := m.client.join(ctx, m.cfg.Pool, m.cfg.Name, invitation)
		switch {
		case err == nil:
			m.memory.Token = token
			m.retry.Reset()
			m.notify(Event{Kind: Joined})
			return m.memory.keep(m.cfg.Dir)
		case isFinal(err) || ctx.Err() != nil:
			return err
		}
		m.unreachable(err)
		_ = clock.Pause(ctx, m.retry.NextBackOff()) // if ctx ends, the next try fails
	}
}

// sync reports the machine's state and returns the agents that should run. If the token is no longer valid, sync tries
// to join the machine again.
func (m *Machine) sync(ctx context.Context, leaving bool) (wire.PoolOrders, error) {
	running, ended, err := m.agents.report(ctx)
	if err != nil {
		return wire.PoolOrders{}, err
	}
	r := wire.PoolReport{Type: m.cfg.Type, Labels: m.cfg.Labels, Capacity: m.cfg.Capacity, Running: running,
		Ended: ended, Leaving: leaving}
	orders, err := m.client.sync(ctx, m.cfg.Pool, m.cfg.Name, m.memory.Token.Token, r)
	if errors.Is(err, ErrRefused) && m.cfg.JoinToken != nil && !leaving {
		m.memory.Token = apitypes.PoolToken{}
		if err := m.join(ctx); err != nil {
			return orders, err
		}
		orders, err = m.client.sync(ctx, m.cfg.Pool, m.cfg.Name, m.memory.Token.Token, r)
	}
	if err == nil && orders.Token != nil {
		m.memory.Token = *orders.Token
		err = m.memory.keep(m.cfg.Dir)
	}
	return orders, err
}
