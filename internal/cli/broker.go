package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Server is a broker in this process.
type Server interface {
	// Serve runs the broker until ctx ends, then stops its machines and returns.
	Serve(ctx context.Context) error
	URL() string
	Token() string
	// Close releases the state folder. Call it after Serve has returned.
	Close() error
}

// Brokers finds the broker that uses a state folder, or opens one.
type Brokers interface {
	Find(state string) (host.Running, bool, error)
	Open(ctx context.Context, o host.Options) (Server, error)
}

// localBrokers finds brokers on this computer.
type localBrokers struct{}

func (localBrokers) Find(state string) (host.Running, bool, error) { return host.Find(state) }

func (localBrokers) Open(ctx context.Context, o host.Options) (Server, error) {
	return host.Open(ctx, o)
}

// conn is a connection to a broker.
type conn struct {
	*client.Client
	running host.Running
	state   string // absolute
	// embedded: the broker runs in this process and ends with it. passive: the connection only reads.
	embedded, passive bool
	newStateFolder    string // state, if no broker has used the folder before
	remote            bool   // on another computer
	hint              string // flag that a suggested command needs to find this broker again
	close             func() error
	ended             chan struct{} // closed when the broker in this process has ended
	failure           error         // why it has ended; read it only after that
}

// wait returns nil when ctx ends, or an error if the broker ended on its own before.
func (s *conn) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ended:
		return s.endedBy()
	}
}

// endedBy returns why the broker in this process has ended. Close does not repeat it.
func (s *conn) endedBy() error {
	if s.failure == nil {
		return command.Failed("`tradewind up -v` logs more", "the broker ended unexpectedly")
	}
	err := s.failure
	s.failure = nil
	return command.Because(err, command.ExitFailed, "", "the broker ended: %v", err)
}

// Close ends an embedded or passive broker and returns the error of its run, if any.
func (s *conn) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// connected returns the connection to a running broker.
func connected(state string, r host.Running) *conn {
	return &conn{Client: client.New(r.URL, r.Token), running: r, state: state}
}

// takeover is how long to wait for another broker that starts or ends on the same state folder.
const takeover = 5 * time.Second

// reading opens a read connection, calls do with it until the command is interrupted, and closes it.
func (a *app) reading(c *cobra.Command, state string, do func(ctx context.Context, s *conn) error) error {
	ctx, cancel := a.Stop.Context(c.Context())
	defer cancel()
	s, err := a.read(ctx, state)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, s), s.Close())
}

// read connects to the remote broker that the command line names, or to the broker of a state folder. If none runs, it
// opens the folder read-only.
func (a *app) read(ctx context.Context, state string) (*conn, error) {
	if s, err := a.remote(ctx); s != nil || err != nil {
		return s, err
	}
	state = absolute(state)
	r, running, err := a.brokers.Find(state)
	if err != nil {
		return nil, err
	}
	if running {
		return connected(state, r), nil
	}
	if !command.Exists(state) {
		return nil, command.BadInput("`tradewind run FILE` or `tradewind up` creates one; --state names another",
			"no state folder: %s does not exist", state)
	}
	fresh := host.Fresh(state)
	s, err := a.start(ctx, host.Options{State: state, Passive: true, TimeScale: 1})
	if err == nil && fresh && s.passive {
		s.newStateFolder = state
	}
	return s, err
}

// running connects to a running broker, which every command that changes something needs.
func (a *app) running(ctx context.Context, state, what string) (*conn, error) {
	if s, err := a.remote(ctx); s != nil || err != nil {
		return s, err
	}
	state = absolute(state)
	r, running, err := a.brokers.Find(state)
	if err != nil {
		return nil, err
	}
	if !running {
		return nil, command.Failed(
			"start one with `tradewind up`, or use `tradewind run FILE` without --detach, which starts its own broker",
			"no broker is running for %s; one is needed to %s", state, what)
	}
	return connected(state, r), nil
}

// start opens a broker in this process. If another process holds the folder for a moment, start waits for it; if that
// process turns out to be a running broker, start connects to it instead.
func (a *app) start(ctx context.Context, o host.Options) (*conn, error) {
	o.State, o.Version, o.Stores = absolute(o.State), a.Version, a.clouds.Stores
	o.Secrets = a.clouds.Secrets
	if !o.Passive {
		o.Agent = a.Agent(ctx)
		own, err := settings.Own(a.Lookup)
		if err != nil {
			return nil, err
		}
		o.Notify = own.Notify.Is
	}
	if o.Log == nil {
		o.Log = a.logger(slog.LevelError)
	}
	until := a.Now().Add(takeover)
	for {
		server, err := a.brokers.Open(ctx, o)
		switch {
		case err == nil:
			return serve(server, o), nil
		case !errors.Is(err, host.ErrLocked) || !a.Now().Before(until):
			if files.NoSpace(err) {
				what, hint := host.FullDisk(o.State)
				return nil, command.Because(err, command.ExitFailed, hint, "the broker cannot start: %s", what)
			}
			return nil, cmp.Or(loopback.ListenError(err, "addr"), fmt.Errorf("the broker cannot start: %w", err))
		}
		if r, running, err := a.brokers.Find(o.State); err == nil && running {
			return connected(o.State, r), nil
		}
		if err := clock.Pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// serve runs a broker until its connection is closed.
func serve(server Server, o host.Options) *conn {
	// Not the command's context: the command stops the broker itself, after cleaning up.
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s := connected(o.State, host.Running{URL: server.URL(), Token: server.Token(), PID: os.Getpid(),
		TimeScale: o.TimeScale})
	s.embedded, s.passive, s.ended = !o.Passive, o.Passive, ended
	go func() {
		defer close(ended)
		s.failure = server.Serve(ctx)
	}()
	s.close = func() error {
		stop()
		<-ended
		return errors.Join(s.failure, server.Close())
	}
	return s
}

func absolute(dir string) string { return command.Absolute(dir) }

// maxListedJobs is how many jobs are searched for an ID; the API lists no more.
const maxListedJobs = 1000

// job resolves a job argument: an ID, a unique beginning of one, or "last".
func (a *app) job(ctx context.Context, s *conn, arg string) (string, error) {
	limit := maxListedJobs
	if arg == "last" {
		limit = 1
	}
	list, err := s.Jobs(ctx, limit)
	if err != nil {
		return "", err
	}
	if arg == "last" {
		if len(list.Jobs) == 0 {
			return "", command.BadInput("`tradewind run FILE` runs one", "there are no jobs yet in %s", s.state)
		}
		return list.Jobs[0].ID, nil
	}
	var matches []string
	for _, j := range list.Jobs {
		if j.ID == arg {
			return arg, nil
		}
		if strings.HasPrefix(j.ID, arg) {
			matches = append(matches, j.ID)
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		if len(list.Jobs) == maxListedJobs {
			return arg, nil // the job may be older than the listed ones
		}
		return "", command.BadInput("`tradewind status` lists the jobs", "unknown job %q in %s", arg, s.state)
	default:
		const most = 5
		shown := matches[:min(most, len(matches))]
		hint := "it matches " + text.List(shown, "or")
		if len(matches) > most {
			hint += fmt.Sprintf(", or one of %d more", len(matches)-most)
		}
		return "", command.BadInput(hint, "%q is the beginning of %d jobs", arg, len(matches))
	}
}
