package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// choice is a user's answer about a job after an interrupt.
type choice int

const (
	stay choice = iota
	leave
	cancelJob
)

// followRun shows a job until it has finished. An interrupt leaves a job that another broker runs. One that runs in
// this process is cancelled, unless someone is at the terminal and chooses otherwise. It reports whether the job was
// left.
func (a *app) followRun(ctx context.Context, s *conn, id string) (left bool, err error) {
	if s.embedded && a.Ask == nil {
		return false, a.followAndCancel(ctx, s, id, a.Stop.First())
	}
	hint := "Ctrl-C stops watching; the job continues"
	if s.embedded {
		hint = "Ctrl-C asks whether to leave, cancel or stay"
	}
	for {
		if interrupted, err := a.followUntil(ctx, s, id, hint); !interrupted {
			return false, err
		}
		if !s.embedded {
			return true, a.detached(id,
				"continues on its broker; `tradewind status -w "+id+a.brokerHint(s)+"` follows it")
		}
		switch a.askWhatNext(ctx, id) {
		case leave:
			return true, a.detached(id, "resumes when a broker next runs: `tradewind up"+a.stateHint(s.state)+"`")
		case cancelJob:
			now := make(chan struct{})
			close(now)
			return false, a.followAndCancel(ctx, s, id, now)
		case stay:
		}
		a.Stop.Forget()
	}
}

// followUntil shows a job until it has finished or the command is interrupted.
func (a *app) followUntil(ctx context.Context, s *conn, id, hint string) (interrupted bool, err error) {
	bound, cancel := a.Stop.Context(ctx)
	defer cancel()
	show := a.newFollower(s.running.TimeScale, hint)
	err = a.follow(bound, s, id, show)
	show.Close()
	return bound.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled), err
}

// askWhatNext asks what an interrupt means. An empty answer means to stay; the end of the input means to leave.
func (a *app) askWhatNext(ctx context.Context, id string) choice {
	for {
		got, err := a.Ask(ctx, id+": [l]eave it for the next broker, [c]ancel it, or [s]tay? [s] ")
		switch got = strings.ToLower(got); {
		case got == "l" || got == "leave" || got == "d" || got == "detach" || err != nil:
			return leave
		case got == "c" || got == "cancel":
			return cancelJob
		case got == "s" || got == "stay" || got == "":
			return stay
		}
		a.Tell("answer l, c or s")
	}
}

// detached is the end of a command that leaves an unfinished job.
func (a *app) detached(id, how string) error {
	a.Tell("%s %s", id, how)
	return command.Silent(command.ExitInterrupted)
}
