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

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud/local"
)

// Config is what a machine needs to know. Endpoint, Pool, Name, Capacity and Dir are required; zero values of the
// others are useful.
type Config struct {
	Endpoint string // the broker's base URL
	Broker   string // which broker that is, however it is reached; Endpoint when empty
	Pool     string
	Name     string // the machine's, in its pool
	Type     string // what a task may ask for as its instance type
	Labels   map[string]string
	Capacity wire.PoolCapacity
	Dir      string // the machine's own folder: what it has joined as, its agents and their work; one process at a time
	// Invite returns a token to join with. It is asked when there is no good token of the machine's own; nil is none.
	Invite func(ctx context.Context) (string, error)
	// Command is the agent program; this program's own "agent" command when empty. Environ is its environment, this
	// process's when nil.
	Command []string
	Environ []string

	HTTPClient *http.Client
	Log        *slog.Logger
	// Tell is told what happens, for people: from several goroutines, one at a time. Nil is not told.
	Tell func(Event)

	Grace       time.Duration // between SIGTERM and SIGKILL of an agent; 15 s
	LeaveWithin time.Duration // for tasks to save their work when the machine leaves; 15 min
	RetryMost   time.Duration // between two calls while the broker does not answer; 15 s
}

// Kind is of an Event.
type Kind string

// What happens to a machine.
const (
	Joined      Kind = "joined"
	Began       Kind = "began"       // an agent was started
	Ended       Kind = "ended"       // and has ended
	Failed      Kind = "failed"      // and could not be started or ended
	Draining    Kind = "draining"    // nothing new will come
	Undrained   Kind = "undrained"   // it will
	Unreachable Kind = "unreachable" // the broker does not answer, which is told once
	Reached     Kind = "reached"     // it does again
	Leaving     Kind = "leaving"
)

// Event is something that happened.
type Event struct {
	Kind    Kind
	Job     string // with Began
	Cluster string // with Began, Ended and Failed
	Hold    wire.PoolCapacity
	Running int // agents that are still there, with Leaving
	Err     error
}

// Machine is a machine of a pool. Make one with Open.
type Machine struct {
	cfg    Config
	client *client
	memory memory
	agents *agents
	retry  *backoff.ExponentialBackOff
	tells  chan struct{} // a lock

	draining, away bool
}

// ErrInUse says that another process is the machine of that folder.
var ErrInUse = local.ErrInUse

// Open takes charge of a machine's folder, which is made when missing, and of the agents that an earlier process left
// there. It fails with ErrInUse while another process has it.
func Open(cfg Config) (*Machine, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	m := &Machine{cfg: cfg, client: newClient(cfg.HTTPClient, cfg.Endpoint), tells: make(chan struct{}, 1),
		retry: backoff.NewExponentialBackOff()}
	m.retry.InitialInterval, m.retry.MaxInterval = min(time.Second, cfg.RetryMost), cfg.RetryMost
	var err error
	if m.agents, err = openAgents(cfg, filepath.Join(cfg.Dir, "agents")); err != nil {
		return nil, err
	}
	if m.memory, err = recall(cfg.Dir, cfg.Broker, cfg.Pool, cfg.Name); err != nil {
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
	if c.Tell == nil {
		c.Tell = func(Event) {}
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

// Close lets go of the agents, which run on, for the next process on the folder.
func (m *Machine) Close() error { return m.agents.host.Close() }

// Kill ends every agent now, without saving what tasks have done. It may be called while Run is under way.
func (m *Machine) Kill(ctx context.Context) error { return m.agents.endAll(ctx) }

// tell tells one thing after the other.
func (m *Machine) tell(e Event) {
	m.tells <- struct{}{}
	defer func() { <-m.tells }()
	m.cfg.Tell(e)
}

// Run is the machine of its pool until ctx ends; then it has the tasks save their work, waits for that, and leaves
// (nil). It fails when the broker has had the last word: ErrRefused, ErrRemoved, ErrTaken, ErrReport. No agent is left
// when it returns.
func (m *Machine) Run(ctx context.Context) error {
	err := m.run(ctx)
	if err != nil && !lastWord(err) && ctx.Err() == nil {
		return err // of this computer: a later process may find the agents at work
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	err = errors.Join(err, m.agents.endAll(end))
	if errors.Is(err, ErrRemoved) {
		err = errors.Join(err, forget(m.cfg.Dir))
	}
	return err
}

const endWithin = time.Minute

// run syncs until the end.
func (m *Machine) run(ctx context.Context) error {
	if err := m.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it never was there
		}
		return err
	}
	leave := ctx.Done()
	var giveUp <-chan time.Time
	for call := ctx; ; {
		orders, err := m.sync(call, leave == nil)
		pause := orders.After
		switch {
		case call.Err() != nil: // told to leave meanwhile
		case lastWord(err):
			return err
		case err != nil:
			pause = m.retry.NextBackOff()
			m.unreachable(err)
		default:
			m.reached(orders, leave == nil)
			settled, err := m.agents.obey(call, orders.Agents, m.tell)
			if err != nil && call.Err() == nil {
				return err
			}
			if leave == nil && settled && len(orders.Agents) == 0 {
				return nil
			}
		}
		timer := time.NewTimer(max(pause, leastPause))
		select {
		case <-timer.C:
		case <-m.agents.changed:
		case <-leave:
			leave, call = nil, context.WithoutCancel(ctx)
			giveUp = time.After(m.cfg.LeaveWithin)
			running, _, _ := m.agents.report(call) // how many is for people
			m.tell(Event{Kind: Leaving, Running: len(running)})
		case <-giveUp:
			timer.Stop()
			return errLeft
		}
		timer.Stop()
	}
}

// errLeft says that tasks had no time to save their work.
var errLeft = errors.New("pool: what still runs did not save its work in time, and is ended")

// leastPause keeps a broker that is of two minds from being asked without a pause.
const leastPause = 50 * time.Millisecond

func (m *Machine) unreachable(err error) {
	m.cfg.Log.Debug("sync", "err", err)
	if !m.away {
		m.tell(Event{Kind: Unreachable, Err: err})
	}
	m.away = true
}

func (m *Machine) reached(o wire.PoolOrders, leaving bool) {
	m.retry.Reset()
	if m.away {
		m.tell(Event{Kind: Reached})
	}
	if o.Draining != m.draining && !leaving {
		kind := Undrained
		if o.Draining {
			kind = Draining
		}
		m.tell(Event{Kind: kind})
	}
	m.away, m.draining = false, o.Draining
}

// join gets a token of the machine's own, unless it has one.
func (m *Machine) join(ctx context.Context) error {
	if m.memory.Token.Token != "" {
		m.tell(Event{Kind: Joined})
		return nil
	}
	if m.cfg.Invite == nil {
		return fmt.Errorf("%w: there is no token to join with", ErrRefused)
	}
	invitation, err := m.cfg.Invite(ctx)
	if err != nil {
		return err
	}
	for {
		token, err := m.client.join(ctx, m.cfg.Pool, m.cfg.Name, invitation)
		switch {
		case err == nil:
			m.memory.Token = token
			m.retry.Reset()
			m.tell(Event{Kind: Joined})
			return m.memory.keep(m.cfg.Dir)
		case lastWord(err) || ctx.Err() != nil:
			return err
		}
		m.unreachable(err)
		_ = clock.Pause(ctx, m.retry.NextBackOff()) // when it ends, so does the next try
	}
}

// sync tells what there is, and learns what should be. A token that is no longer good is replaced by a new one where
// the machine may join anew.
func (m *Machine) sync(ctx context.Context, leaving bool) (wire.PoolOrders, error) {
	running, ended, err := m.agents.report(ctx)
	if err != nil {
		return wire.PoolOrders{}, err
	}
	r := wire.PoolReport{Type: m.cfg.Type, Labels: m.cfg.Labels, Capacity: m.cfg.Capacity, Running: running,
		Ended: ended, Leaving: leaving}
	orders, err := m.client.sync(ctx, m.cfg.Pool, m.cfg.Name, m.memory.Token.Token, r)
	if errors.Is(err, ErrRefused) && m.cfg.Invite != nil && !leaving {
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
