// Package agent is the program on a machine. It dials out to the broker with
// its job-scoped token, asks for work, stages data, runs the task in a process
// tree that cannot outlive it, streams the task's log, saves checkpoints on a schedule and when
// the machine is about to be taken, keeps the outputs, and reports. Nothing dials in.
//
// While the broker is away the task goes on: reports and logs are tried again until
// they are accepted, for as long as Config.Patience. A broker that says that the attempt is over, or that
// the token is not good, ends the task.
//
// What a task finds in its environment is listed at taskEnv; the protocol is package wire; files move by package stage.
// The agent knows nothing of plans, prices or other machines than its cluster's.
//
// A task ends with SIGTERM to all its processes and, after Config.Grace, SIGKILL. When its machine is about to be
// taken, the file $TRADEWIND_NOTICE appears first, and it gets most of the notice to save and end; whatever it exits
// with then, it is resumed elsewhere from what its checkpoint directory holds.
package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/mount"
	"github.com/tradewind-broker/tradewind/pkg/agent/prove"
	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/agent/token"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// Errors that end Run, wrapped with detail.
var (
	// ErrOver: the broker says that the attempt, or the cluster, is over.
	ErrOver = errors.New("agent: the attempt is over")
	// ErrRefused: the broker does not take the token.
	ErrRefused = errors.New("agent: token refused")
	// ErrUnreachable: the broker accepted nothing for longer than Config.Patience.
	ErrUnreachable = errors.New("agent: broker unreachable")
	// ErrConfig: the configuration lacks something.
	ErrConfig = errors.New("agent: bad configuration")
)

// Config is what an agent needs to know. Endpoint, Token and Dir are required; zero values of the others are useful.
type Config struct {
	Endpoint string // the broker's base URL
	Token    string
	Dir      string // the agent's own directory; each attempt gets one below it
	Address  string // where other nodes of the cluster reach this one; that of the way to the broker when empty
	Machine  string // its name, which its processes carry in TRADEWIND_MACHINE
	Rank     int    // which of its cluster's machines it is, where the token is for all of them
	Version  string

	HTTPClient *http.Client
	Logger     *slog.Logger
	Environ    []string // what the task's environment is taken from (see inherited); nothing when nil
	// Hold stays open in every process that the agent leaves running, until nothing of the task is left.
	Hold *os.File
	// Notices tells of the machine's own warnings that it will be taken, by how long it has left.
	Notices <-chan time.Duration
	// Prove asks for the proof of which machine this is; nil where there is none.
	Prove prove.Func
	// Sole says that the machine is the task's alone, so that inputs may be staged outside the task's directory.
	Sole bool

	Patience  time.Duration  // how long the broker may be away; 10 min
	Grace     time.Duration  // between SIGTERM and SIGKILL; 5 s
	Heartbeat time.Duration  // between reports that the node is alive; 30 s
	PollWait  time.Duration  // how long the broker may hold a poll; 20 s
	LogPause  time.Duration  // between two pieces of log; 200 ms
	MaxLog    int64          // bytes of log kept of one attempt; 256 MiB
	Transfer  stage.Transfer // but for who grants it what
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Endpoint == "":
		return c, fmt.Errorf("%w: no endpoint", ErrConfig)
	case c.Token == "":
		return c, fmt.Errorf("%w: no token", ErrConfig)
	case c.Dir == "":
		return c, fmt.Errorf("%w: no directory", ErrConfig)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	c.Dir = dir
	if c.Address == "" {
		c.Address = outboundAddress(c.Endpoint)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	defaults := []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Patience, 10 * time.Minute}, {&c.Grace, 5 * time.Second}, {&c.Heartbeat, 30 * time.Second},
		{&c.PollWait, 20 * time.Second}, {&c.LogPause, 200 * time.Millisecond},
	}
	for _, d := range defaults {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.MaxLog <= 0 {
		c.MaxLog = 256 << 20
	}
	return c, nil
}

// outboundAddress is the address from which this machine would talk to the endpoint, "" when there is no way to it.
// Nothing is sent.
func outboundAddress(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if err != nil {
		return ""
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// agent is one run of the program. Its loop owns the current attempt; polls, reports and logs have goroutines of their
// own, which tell it by fatal when the broker has had the last word.
type agent struct {
	cfg    Config
	log    *slog.Logger
	claims wire.Claims
	client *client
	fatal  chan error
	count  int // of attempts, for their directories
	wg     sync.WaitGroup
	host   visitable
}

// Run works for the broker until it is told to stop or disconnect (nil), ctx ends (its cause), or
// one of the errors above. When it returns, nothing of the task is left.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	claims, err := token.Read(cfg.Token)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := mount.Clear(ctx, cfg.Dir); err != nil { // of an agent before, in the same directory
		return err
	}
	if claims.Ranks > 0 { // the token is for all machines of the cluster
		claims.Rank = cfg.Rank
	}
	a := &agent{cfg: cfg, log: cfg.Logger, claims: claims, client: newClient(cfg), fatal: make(chan error, 8)}
	// What is in the background outlives ctx by the time that it takes to report the end.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer a.wg.Wait()
	defer cancel()
	first, err := a.client.hello(ctx, a.greeting(ctx))
	if err != nil {
		return err
	}
	a.log.Debug("registered", "cluster", claims.Cluster, "rank", claims.Rank)
	return a.loop(ctx, background, first)
}

// greeting is what the agent says first. Where its cloud does not answer it comes without a proof: whether one is
// needed the broker decides.
func (a *agent) greeting(ctx context.Context) wire.Hello {
	h := wire.Hello{Address: a.cfg.Address, Version: a.cfg.Version, Nonce: rand.Text()}
	if a.claims.Ranks > 0 {
		h.Rank = a.claims.Rank
	}
	if a.cfg.Prove != nil {
		var err error
		if h.Proof, err = a.cfg.Prove(ctx, h.Nonce); err != nil {
			a.log.Warn("the machine cannot prove which one it is", "err", err)
		}
	}
	return h
}

// loop serves commands until the end, after what the hello was answered with.
func (a *agent) loop(ctx, background context.Context, first wire.Work) error {
	works := make(chan wire.Work)
	a.wg.Go(func() { a.die(a.poll(background, works, first)) })
	var current *attempt
	var doomed time.Time // when the machine will be taken, once it is known
	defer func() { current.end(orderAbandon) }()
	for {
		select {
		case w := <-works:
			next, done := a.obey(background, w, current)
			fresh := next != current
			if current = next; done {
				return nil
			}
			if fresh && !doomed.IsZero() { // the notice came before the work
				current.noticed(max(time.Until(doomed), 0))
			}
		case left, ok := <-a.cfg.Notices:
			if !ok {
				a.cfg.Notices = nil
				continue
			}
			a.log.Info("the machine will be taken", "in", left)
			doomed = time.Now().Add(left)
			current.noticed(left)
		case err := <-a.fatal:
			a.log.Info("stopping", "reason", err)
			return err
		case <-ctx.Done():
			current.end(orderStop)
			return context.Cause(ctx)
		}
	}
}

// obey acts on a command. It returns the current attempt, and whether the agent is to exit.
func (a *agent) obey(ctx context.Context, w wire.Work, current *attempt) (next *attempt, done bool) {
	a.log.Debug("command", "command", w.Command, "seq", w.Seq)
	switch w.Command {
	case wire.Run:
		if w.Assignment == nil {
			return current, false
		}
		if current.is(w.Assignment.Attempt) {
			current.meet(w.Assignment.Gang)
			return current, false
		}
		current.replace()
		a.count++
		return a.begin(ctx, w.Assignment, a.count), false
	case wire.SaveNow:
		left := w.Notice
		if left <= 0 && !w.Until.IsZero() {
			left = time.Until(w.Until)
		}
		current.save(left, w.Now)
	case wire.Stop:
		current.end(orderStop)
		return nil, true
	case wire.Disconnect:
		current.end(orderAbandon)
		return nil, true
	}
	return current, false
}

// die makes err the reason to end, unless there is one or the end has come.
func (a *agent) die(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case a.fatal <- err:
	default:
	}
}

// pollFloor is the least time between two polls that brought nothing, for brokers that do not hold them.
const pollFloor = 100 * time.Millisecond

// poll asks for commands until ctx ends or the broker has had the last word. The first one may be known.
func (a *agent) poll(ctx context.Context, works chan<- wire.Work, w wire.Work) error {
	seen, visits := 0, 0
	var began time.Time
	for {
		pause := w.Pause
		if w.Visits > visits {
			visits = a.attend(ctx, visits, w.Visits)
		}
		if w.Command != wire.None && w.Seq > seen {
			select {
			case works <- w:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			pause = max(pause, pollFloor-time.Since(began))
		}
		seen = max(seen, w.Seq)
		if err := clock.Pause(ctx, pause); err != nil {
			return err
		}
		began = time.Now()
		var err error
		if w, err = a.client.work(ctx, seen, visits, a.cfg.PollWait); err != nil {
			return err
		}
	}
}
