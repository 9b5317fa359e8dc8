// Package agent is the program that runs on a machine. It connects to the broker with a token that is only for its
// job, and requests work. It stages data, and runs the task in a process tree that cannot outlive the agent. It sends
// the task's log, and saves checkpoints on a schedule and when the machine is about to be taken. In the end it
// uploads the outputs, and reports. Nothing connects to the agent.
//
// The task continues while the broker is unreachable: the agent retries reports and logs for as long as
// Config.Patience. The task ends if the broker answers that the attempt has finished or that the token is not valid.
//
// taskEnv lists the variables of a task's environment. Package wire is the protocol, and package stage moves files.
// The agent knows nothing of plans, prices or machines outside of its cluster.
//
// To end a task, the agent sends SIGTERM to all its processes and, after Config.Grace, SIGKILL. When its machine is
// about to be taken, the agent first creates the file $TRADEWIND_NOTICE, and the task gets most of the notice to save
// and end. With any exit code, it then resumes elsewhere from the contents of its checkpoint directory.
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

	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/hostnames"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/mailbox"
)

// Errors that end Run, wrapped with detail.
var (
	// ErrFinished means that the broker answered that the attempt, or the cluster, has finished.
	ErrFinished = errors.New("agent: the attempt has finished")
	// ErrRefused means that the broker does not accept the token.
	ErrRefused = errors.New("agent: token refused")
	// ErrUnreachable means that the broker accepted nothing for longer than Config.Patience.
	ErrUnreachable = errors.New("agent: broker unreachable")
	// ErrConfig means that the configuration is incomplete or invalid.
	ErrConfig = errors.New("agent: bad configuration")
)

// Config configures an agent. Endpoint, Token and Dir are required; the other fields have useful zero values.
type Config struct {
	Endpoint string // the broker's base URL
	Token    string
	Dir      string // the agent's own directory; each attempt gets a directory below it
	// address at which other nodes of the cluster can reach this one; if empty, the local address from which the
	// broker is called
	Address string
	Machine string // the machine's name, which its processes carry in TRADEWIND_MACHINE
	Rank    int    // the machine's rank in its cluster, if the token is for all of them
	Version string

	HTTPClient *http.Client
	// Mailbox carries the calls if the broker has no address; nil if it has one. HTTPClient then uses it.
	Mailbox *mailbox.Transport
	Logger  *slog.Logger
	Environ []string // source of the task's environment (see inherited); nil means that nothing is taken over
	// Hold stays open in every process that the agent leaves running. So it is closed when no process of the task
	// runs any more.
	Hold *os.File
	// Notices receives the machine's own warnings that it will be taken. Each value is the time until then.
	Notices <-chan time.Duration
	// Prove fetches the proof of this machine's identity; nil if there is none.
	Prove attest.Func
	// Worker runs the machine as a worker; nil if it cannot be one.
	Worker Worker
	// Sole means that only this task uses the machine, so that inputs may be staged outside the task's directory.
	Sole bool
	// Once means that the agent ends when the result of its attempt is reported, and does not wait for a command. Its
	// end shows the worker that there is room for another task.
	Once bool
	// Isolate means that each task runs as another user, because other tasks use the machine. The agent must be root.
	Isolate bool
	// Setups is the worker's folder for the files of setups, if the node is a worker's task: each setup runs once for
	// all of them. If it is empty, each task runs its own setup.
	Setups string
	// Hosts is the file to which the agent adds the host names of a job group's tasks; /etc/hosts if empty.
	Hosts hostnames.File

	Patience  time.Duration  // how long the broker may be unreachable; wire.Patience
	Grace     time.Duration  // between SIGTERM and SIGKILL; 5 s
	Heartbeat time.Duration  // between reports that the node is alive; 30 s
	PollWait  time.Duration  // how long the broker may hold a poll; 20 s
	LogPause  time.Duration  // between two pieces of log; 200 ms
	MaxLog    int64          // bytes of log kept for each attempt; 256 MiB
	Transfer  stage.Transfer // without the fields that the agent sets for each attempt, such as Grants
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
		{&c.Patience, wire.Patience}, {&c.Grace, 5 * time.Second}, {&c.Heartbeat, 30 * time.Second},
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

// outboundAddress returns the local address from which this machine would connect to the endpoint, or "" if there is
// no route. It sends nothing.
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

// agent is one run of the program. Its loop owns the current attempt. Polls, reports and logs have their own
// goroutines, which send to fatal when the broker's answer ends the agent.
type agent struct {
	cfg    Config
	log    *slog.Logger
	claims wire.Claims
	client *client
	fatal  chan error
	count  int // of attempts, for their directories
	wg     sync.WaitGroup
	host   visitorGate
	groups controlGroups
}

// Run works for the broker until a command is stop or disconnect (it then returns nil), until ctx ends (it returns
// the cause), or until one of the errors above. When it returns, no process of the task runs any more.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	claims, err := token.Read(cfg.Token)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := mount.Clear(ctx, cfg.Dir); err != nil { // mounts of an earlier agent in the same directory
		return err
	}
	if err := cfg.Hosts.Sweep(); err != nil { // host names that a killed agent left in the file
		cfg.Logger.Warn("cannot remove the host names that an earlier agent added", "err", err)
	}
	if claims.Ranks > 0 { // the token is for all machines of the cluster
		claims.Rank = cfg.Rank
	}
	a := &agent{cfg: cfg, log: cfg.Logger, claims: claims, client: newClient(cfg), fatal: make(chan error, 8)}
	// Background work outlives ctx by the time it takes to report the end.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer a.wg.Wait()
	defer cancel()
	first, err := a.client.hello(ctx, a.helloMessage(ctx))
	if err != nil {
		return err
	}
	a.log.Debug("registered", "cluster", claims.Cluster, "rank", claims.Rank)
	return a.loop(ctx, background, first)
}

// helloMessage returns the agent's hello. If the cloud does not answer, the hello has no proof: the broker decides
// whether it needs one.
func (a *agent) helloMessage(ctx context.Context) wire.Hello {
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

// loop obeys commands until the agent should end. first is the answer to the hello.
func (a *agent) loop(ctx, background context.Context, first wire.Work) error {
	works := make(chan wire.Work)
	a.wg.Go(func() { a.fail(a.poll(background, works, first)) })
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

// obey executes a command. It returns the current attempt, and true if the agent should exit.
func (a *agent) obey(ctx context.Context, w wire.Work, current *attempt) (next *attempt, done bool) {
	a.log.Debug("command", "command", w.Command, "seq", w.Seq)
	switch w.Command {
	case wire.Run:
		if w.Assignment == nil {
			return current, false
		}
		if current.isAttempt(w.Assignment.Attempt) {
			current.updateGang(w.Assignment.Gang)
			return current, false
		}
		current.replace()
		a.count++
		return a.begin(ctx, w.Assignment, a.count), false
	case wire.SaveAndStop:
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

// fail makes err the reason why the agent ends, unless there already is one or ctx was cancelled.
func (a *agent) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case a.fatal <- err:
	default:
	}
}

// pollFloor is the minimum time between two polls that returned no command, for brokers that do not hold polls.
const pollFloor = 100 * time.Millisecond

// poll requests commands until ctx ends or the broker's answer ends the agent. w is the answer to the hello.
func (a *agent) poll(ctx context.Context, works chan<- wire.Work, w wire.Work) error {
	seen, visits := 0, 0
	var began time.Time
	for {
		pause := w.Pause
		if w.Visits > visits {
			visits = a.serveNewVisits(ctx, visits, w.Visits)
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
