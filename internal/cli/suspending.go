package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// SuspendBroker is the part of a broker's API that the commands need.
type SuspendBroker interface {
	Suspend(ctx context.Context, id, by, reason string) (*apitypes.JobView, error)
	Resume(ctx context.Context, id, by string) (*apitypes.JobView, error)
	SuspendQueue(ctx context.Context, name, by, reason string, drain bool) (*apitypes.Queue, error)
	ResumeQueue(ctx context.Context, name, by string) (*apitypes.Queue, error)
}

// Target is a broker.
type Target struct {
	SuspendBroker
	// Job resolves a job argument to the job's ID.
	Job func(ctx context.Context, name string) (string, error)
	// Detail returns a job with its tasks. It may be nil: then no task is named.
	Detail func(ctx context.Context, id string) (*apitypes.JobDetail, error)
	// Queued returns the IDs of the unfinished jobs of a queue and of the queues below it. It may be nil: then no task
	// of a queue is named.
	Queued func(ctx context.Context, queue string) ([]string, error)
	Close  func() error
	// StoppedState is the state folder if no broker is running: the change takes effect when one starts. It is empty if
	// one is running.
	StoppedState string
}

// SuspendBrokers finds the broker for a command.
type SuspendBrokers struct {
	Flags func(c *cobra.Command, state *string) // adds the flags that choose the broker
	Find  func(ctx context.Context, state string) (*Target, error)
}

// maxJobs is the maximum number of jobs in one command.
const maxJobs = 1000

// SuspendCommands returns suspend and resume.
func SuspendCommands(app *command.App, brokers SuspendBrokers) []*cobra.Command {
	return []*cobra.Command{suspendCommand(app, brokers), resumeCommand(app, brokers)}
}

// run has the flags and the target of one run of suspend or resume.
type run struct {
	*command.App
	*Target
	output            *command.Choice
	queue, by, reason string
	drain             bool
}

func suspendCommand(app *command.App, brokers SuspendBrokers) *cobra.Command {
	x := &run{App: app}
	c := &cobra.Command{
		Use:   "suspend [JOB...]",
		Short: "Pause jobs or a queue",
		Long: "Suspends jobs: their running tasks save their work and release their machines, and no task starts\n" +
			"until `tradewind resume`. Meanwhile the jobs use no quota and cost nothing, but their deadlines do not\n" +
			"move. A task without checkpoints later starts from the beginning. With --queue, no task of this queue\n" +
			"and its child queues starts; running tasks continue or, with --drain, save their work and wait. JOB is\n" +
			"an ID, the beginning of one, or \"last\".",
		Example: "  tradewind suspend last --reason \"the data is wrong\"\n  tradewind suspend --queue research\n" +
			"  tradewind suspend --queue research --drain --reason maintenance",
		Args: command.Args(0, maxJobs),
	}
	c.Flags().BoolVar(&x.drain, "drain", false, "with --queue: running tasks save their work and wait, too")
	c.Flags().StringVar(&x.reason, "reason", "", "reason, recorded in the jobs' history")
	return x.command(c, brokers, (*run).suspendJob, (*run).suspendQueue)
}

func resumeCommand(app *command.App, brokers SuspendBrokers) *cobra.Command {
	x := &run{App: app}
	c := &cobra.Command{
		Use:   "resume [JOB...]",
		Short: "Resume suspended jobs or a queue",
		Long: "Resumes suspended jobs: their tasks wait in their queue and continue from their checkpoints. With\n" +
			"--queue, tasks of a suspended or closed queue start again. Jobs and queues that are not suspended do\n" +
			"not change. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind resume last\n  tradewind resume --queue research",
		Args:    command.Args(0, maxJobs),
	}
	return x.command(c, brokers, (*run).resumeJob, (*run).resumeQueue)
}

// command completes one of the commands.
func (x *run) command(c *cobra.Command, brokers SuspendBrokers, job func(*run, context.Context, string) error,
	queue func(*run, context.Context) error) *cobra.Command {
	var state string
	c.Flags().StringVar(&x.queue, "queue", "", "suspend or resume this queue instead of jobs")
	c.Flags().StringVar(&x.by, "by", "", "your name, recorded in the jobs' history (default: the current user)")
	brokers.Flags(c, &state)
	x.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) (err error) {
		switch {
		case x.queue == "" && len(given) == 0:
			return command.BadInput("name jobs, or a queue with --queue", "nothing to %s", c.Name())
		case x.queue != "" && len(given) > 0:
			return command.BadInput("use one or the other", "jobs and --queue exclude each other")
		case x.queue == "" && x.drain:
			return command.BadInput(
				"leave it out: running tasks of a suspended job always stop",
				"--drain needs --queue",
			)
		}
		x.by = cmp.Or(x.by, currentUser())
		ctx, cancel := x.Stop.Context(c.Context())
		defer cancel()
		if x.Target, err = brokers.Find(ctx, state); err != nil {
			return err
		}
		if x.queue != "" {
			return errors.Join(errUnknownQueue(queue(x, ctx), x.queue), x.Close())
		}
		for _, arg := range given {
			id, lost := x.Job(ctx, arg)
			if lost == nil {
				lost = errFinished(job(x, ctx, id), id)
			}
			err = errors.Join(err, lost)
		}
		return errors.Join(err, x.Close())
	}
	return c
}

// currentUser returns the name of the current user, or "" if it is unknown.
func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// errUnknownQueue maps the error for a missing queue to one with a hint.
func errUnknownQueue(err error, queue string) error {
	if client.Status(err) == http.StatusNotFound {
		return command.Because(err, command.ExitBadInput, "`tradewind queue list` lists the queues",
			"unknown queue %q", queue)
	}
	return err
}

// errFinished maps a conflict error to "already finished".
func errFinished(err error, id string) error {
	if client.Status(err) == http.StatusConflict {
		return command.Because(err, command.ExitFailed, "", "%s has already finished", id)
	}
	return err
}

func (x *run) suspendJob(ctx context.Context, id string) error {
	var before apitypes.JobDetail
	if x.Detail != nil {
		d, err := x.Detail(ctx, id)
		if err != nil {
			return err
		}
		before = *d
	}
	v, err := x.Suspend(ctx, id, x.by, x.reason)
	if err != nil {
		return err
	}
	x.tellUnsaved(unsaved(&before), id)
	said := "is suspended"
	if v.State == apitypes.JobSuspending {
		said = "is suspended: its running tasks save their work and release their machines"
	}
	return x.printDone(v, id, said)
}

// unsaved returns the names of the tasks of a job that lose their work when it is suspended.
func unsaved(d *apitypes.JobDetail) (lost []string) {
	for i := range d.TaskList {
		if t := &d.TaskList[i]; t.LosesWork() {
			lost = append(lost, text.Clean(t.Name))
		}
	}
	return lost
}

// tellUnsaved names the tasks that lose their work, until a job or a queue is resumed.
func (x *run) tellUnsaved(lost []string, resumed string) {
	if len(lost) == 0 {
		return
	}
	if more := len(lost) - maxLost; more > 0 {
		lost = append(lost[:maxLost], text.Count(more, "other task"))
	}
	x.Tell("%s: without checkpoints, the work so far is lost: when %s is resumed, it starts again from the beginning",
		text.List(lost, "and"), resumed)
}

// unsavedIn returns the tasks of a queue's jobs that lose their work when the queue is drained, as JOB/TASK.
func (x *run) unsavedIn(ctx context.Context, queue string) (lost []string, err error) {
	if x.Queued == nil || x.Detail == nil {
		return nil, nil
	}
	jobs, err := x.Queued(ctx, queue)
	if err != nil {
		return nil, err
	}
	for n, id := range jobs {
		if n == maxExamined {
			return append(lost, "perhaps tasks of "+text.Count(len(jobs)-n, "other job")), nil
		}
		d, err := x.Detail(ctx, id)
		if client.Status(err) == http.StatusNotFound {
			continue // it was deleted
		}
		if err != nil {
			return nil, err
		}
		for _, name := range unsaved(d) {
			lost = append(lost, id+"/"+name)
		}
	}
	return lost, nil
}

// maxExamined is the maximum number of jobs of a queue whose tasks are read.
const maxExamined = 100

// maxLost is the maximum number of tasks to name.
const maxLost = 5

func (x *run) resumeJob(ctx context.Context, id string) error {
	v, err := x.Resume(ctx, id, x.by)
	if err != nil {
		return err
	}
	return x.printDone(v, id, "resumes")
}

func (x *run) suspendQueue(ctx context.Context) error {
	var lost []string
	if x.drain {
		var err error
		if lost, err = x.unsavedIn(ctx, x.queue); err != nil {
			return err
		}
	}
	q, err := x.SuspendQueue(ctx, x.queue, x.by, x.reason, x.drain)
	if err != nil {
		return err
	}
	x.tellUnsaved(lost, "queue "+text.Clean(x.queue))
	said := "is suspended: none of its tasks starts"
	if q.Suspended.Drain {
		said = "is suspended: no task starts, and running tasks save their work and wait"
	}
	return x.printDone(q, "queue "+x.queue, said)
}

func (x *run) resumeQueue(ctx context.Context) error {
	q, err := x.ResumeQueue(ctx, x.queue, x.by)
	if err != nil {
		return err
	}
	return x.printDone(q, "queue "+x.queue, "admits tasks again")
}

// printDone prints the results.
func (x *run) printDone(v any, name, said string) error {
	switch {
	case x.output.JSON():
		return x.PrintJSON(v)
	case x.StoppedState != "":
		return x.Printf("%s %s, when the next broker starts on %s\n", name, said, x.StoppedState)
	default:
		return x.Printf("%s %s\n", name, said)
	}
}
