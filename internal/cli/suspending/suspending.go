// Package suspending is what the commands suspend and resume do once a broker is found: people have jobs, and queues,
// wait and go on.
package suspending

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Asked is what is asked of a broker.
type Asked interface {
	Suspend(ctx context.Context, id, by, reason string) (*apitypes.JobView, error)
	Resume(ctx context.Context, id, by string) (*apitypes.JobView, error)
	SuspendQueue(ctx context.Context, name, by, reason string, drain bool) (*apitypes.Queue, error)
	ResumeQueue(ctx context.Context, name, by string) (*apitypes.Queue, error)
}

// Found is a broker.
type Found struct {
	Asked
	// Job finds the ID of a job by what somebody calls it.
	Job   func(ctx context.Context, name string) (string, error)
	Close func() error
	// Where is the folder of a broker that does not run: what is asked of it comes to pass when one does. Empty is one
	// that runs.
	Where string
}

// Brokers finds the broker that a command is for.
type Brokers struct {
	Flags func(c *cobra.Command, state *string) // those by which it is found
	Find  func(ctx context.Context, state string) (*Found, error)
}

// most bounds the jobs of one command.
const most = 1000

// Commands are suspend and resume.
func Commands(app *command.App, brokers Brokers) []*cobra.Command {
	return []*cobra.Command{suspendCommand(app, brokers), resumeCommand(app, brokers)}
}

// asking is one run of a command.
type asking struct {
	*command.App
	*Found
	output            *command.Choice
	queue, by, reason string
	drain             bool
}

func suspendCommand(app *command.App, brokers Brokers) *cobra.Command {
	x := &asking{App: app}
	c := &cobra.Command{
		Use:   "suspend [JOB...]",
		Short: "Have jobs, or a queue, wait",
		Long: "Suspends jobs: what runs of them saves its work and gives back its machines, and nothing more of them\n" +
			"starts, until `tradewind resume`. Meanwhile they hold no quota and cost nothing; their deadlines stay.\n" +
			"With --queue, nothing of that queue and those below it is admitted; what runs goes on, or, with --drain,\n" +
			"saves its work and waits, too. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind suspend last --reason \"the data is wrong\"\n  tradewind suspend --queue research\n" +
			"  tradewind suspend --queue research --drain --reason maintenance",
		Args: command.Args(0, most),
	}
	c.Flags().BoolVar(&x.drain, "drain", false, "with --queue: what runs there saves its work and waits, too")
	c.Flags().StringVar(&x.reason, "reason", "", "why, for the jobs' stories")
	return x.command(c, brokers, (*asking).suspendJob, (*asking).suspendQueue)
}

func resumeCommand(app *command.App, brokers Brokers) *cobra.Command {
	x := &asking{App: app}
	c := &cobra.Command{
		Use:   "resume [JOB...]",
		Short: "Have suspended jobs, or a queue, go on",
		Long: "Resumes jobs that were suspended: their tasks wait in their queue and go on from their checkpoints. With\n" +
			"--queue, a queue that was suspended, or closed, admits again. What is not suspended is left as it is. JOB is\n" +
			"an ID, the beginning of one, or \"last\".",
		Example: "  tradewind resume last\n  tradewind resume --queue research",
		Args:    command.Args(0, most),
	}
	return x.command(c, brokers, (*asking).resumeJob, (*asking).resumeQueue)
}

// command completes one of the commands.
func (x *asking) command(c *cobra.Command, brokers Brokers, job func(*asking, context.Context, string) error,
	queue func(*asking, context.Context) error) *cobra.Command {
	var state string
	c.Flags().StringVar(&x.queue, "queue", "", "a queue instead of jobs")
	c.Flags().StringVar(&x.by, "by", "", "who says so, for the jobs' stories (default: the name of the user here)")
	brokers.Flags(c, &state)
	x.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) (err error) {
		switch {
		case x.queue == "" && len(given) == 0:
			return command.BadInput("name jobs, or a queue by --queue", "nothing to %s", c.Name())
		case x.queue != "" && len(given) > 0:
			return command.BadInput("name one or the other", "jobs and --queue are both given")
		case x.queue == "" && x.drain:
			return command.BadInput("leave it out: what runs of a job always waits", "--drain goes with --queue")
		}
		x.by = cmp.Or(x.by, me())
		ctx, cancel := x.Stop.Context(c.Context())
		defer cancel()
		if x.Found, err = brokers.Find(ctx, state); err != nil {
			return err
		}
		if x.queue != "" {
			return errors.Join(unknown(queue(x, ctx), x.queue), x.Close())
		}
		for _, arg := range given {
			id, lost := x.Job(ctx, arg)
			if lost == nil {
				lost = over(job(x, ctx, id), id)
			}
			err = errors.Join(err, lost)
		}
		return errors.Join(err, x.Close())
	}
	return c
}

// me is the name of the user of this computer; empty where nobody knows.
func me() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// unknown says of a queue that is not there where the others are.
func unknown(err error, queue string) error {
	if client.Status(err) == http.StatusNotFound {
		return command.Because(err, command.ExitBadInput, "`tradewind queue list` lists the queues",
			"there is no queue %q", queue)
	}
	return err
}

// over says of a job that is over already that it is.
func over(err error, id string) error {
	if client.Status(err) == http.StatusConflict {
		return command.Because(err, command.ExitFailed, "", "%s is over already", id)
	}
	return err
}

func (x *asking) suspendJob(ctx context.Context, id string) error {
	v, err := x.Suspend(ctx, id, x.by, x.reason)
	if err != nil {
		return err
	}
	said := "is suspended"
	if v.State == apitypes.JobSuspending {
		said = "is suspended: what runs saves its work and gives back its machines"
	}
	return x.tell(v, id, said)
}

func (x *asking) resumeJob(ctx context.Context, id string) error {
	v, err := x.Resume(ctx, id, x.by)
	if err != nil {
		return err
	}
	return x.tell(v, id, "goes on")
}

func (x *asking) suspendQueue(ctx context.Context) error {
	q, err := x.SuspendQueue(ctx, x.queue, x.by, x.reason, x.drain)
	if err != nil {
		return err
	}
	said := "is suspended: it admits nothing"
	if q.Suspended.Drain {
		said = "is suspended: it admits nothing, and what runs saves its work and waits"
	}
	return x.tell(q, "queue "+x.queue, said)
}

func (x *asking) resumeQueue(ctx context.Context) error {
	q, err := x.ResumeQueue(ctx, x.queue, x.by)
	if err != nil {
		return err
	}
	return x.tell(q, "queue "+x.queue, "admits again")
}

// tell prints what was done.
func (x *asking) tell(v any, name, said string) error {
	switch {
	case x.output.JSON():
		return x.PrintJSON(v)
	case x.Where != "":
		return x.Printf("%s %s, when the next broker starts on %s\n", name, said, x.Where)
	default:
		return x.Printf("%s %s\n", name, said)
	}
}
