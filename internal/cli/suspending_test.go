package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// heard records the requests to a broker.
type heard struct{ said []string }

func (h *heard) note(words ...string) { h.said = append(h.said, strings.Join(words, " ")) }

func (h *heard) Suspend(_ context.Context, id, by, reason string) (*apitypes.JobView, error) {
	h.note("suspend", id, by, reason)
	return &apitypes.JobView{ID: id, State: apitypes.JobSuspending}, nil
}

func (h *heard) Resume(_ context.Context, id, by string) (*apitypes.JobView, error) {
	h.note("resume", id, by)
	return &apitypes.JobView{ID: id}, nil
}

func (h *heard) SuspendQueue(_ context.Context, name, by, reason string, drain bool) (*apitypes.Queue, error) {
	h.note("suspend queue", name, by, reason)
	return &apitypes.Queue{Name: name, Closed: true, Suspended: apitypes.Suspension{By: by, Since: time.Unix(0, 0), Drain: drain}}, nil
}

func (h *heard) ResumeQueue(_ context.Context, name, by string) (*apitypes.Queue, error) {
	if name == "nowhere" {
		return nil, &apitypes.Problem{Status: http.StatusNotFound, Detail: "queue nowhere: not found"}
	}
	h.note("resume queue", name, by)
	return &apitypes.Queue{Name: name}, nil
}

// unsavedJob returns a job with a running task without checkpoints, one that saves some, and one that waits.
func unsavedJob(_ context.Context, id string) (*apitypes.JobDetail, error) {
	began := time.Unix(1, 0)
	return &apitypes.JobDetail{JobView: apitypes.JobView{ID: id}, TaskList: []apitypes.TaskView{
		{Name: "saves", Started: began}, {Name: "long", Started: began, Unsaved: true}, {Name: "later", Unsaved: true},
	}}, nil
}

// TestSuspendAndResumeRequests runs the commands with their flags.
func TestSuspendAndResumeRequests(t *testing.T) {
	for _, x := range []struct{ args, asked, printed, fails, silent string }{
		{args: "suspend a b --by ann --reason lunch", asked: "suspend job-a ann lunch; suspend job-b ann lunch", printed: "save their work"},
		{args: "suspend a --by ann", asked: "suspend job-a ann ",
			printed: "long: without checkpoints, the work so far is lost: when job-a is resumed, it starts again from the beginning"},
		{args: "resume a --by bob", asked: "resume job-a bob", printed: "job-a resumes"},
		{args: "suspend --queue lab --by ann", asked: "suspend queue lab ann ", printed: "queue lab is suspended: none of its tasks starts\n"},
		{args: "suspend --queue lab --by ann --drain", asked: "suspend queue lab ann ", printed: "running tasks save their work"},
		{args: "suspend --queue lab --by ann --drain", asked: "suspend queue lab ann ", printed: "job-7/long and job-8/long: " +
			"without checkpoints, the work so far is lost: when queue lab is resumed, it starts again from the beginning"},
		{args: "suspend --queue lab --by ann", asked: "suspend queue lab ann ", silent: "the work so far is lost"},
		{args: "resume --queue lab --by bob", asked: "resume queue lab bob", printed: "admits tasks again"},
		{args: "suspend --queue lab --by ann -o json", asked: "suspend queue lab ann ", printed: `"closed": true`},
		{args: "resume --queue nowhere", fails: `unknown queue "nowhere"`},
		{args: "suspend", fails: "nothing to suspend"},
		{args: "resume", fails: "nothing to resume"},
		{args: "suspend a --queue lab", fails: "exclude each other"},
		{args: "suspend a --drain", fails: "--drain needs --queue"},
	} {
		h, out := &heard{}, &bytes.Buffer{}
		app := command.New(t.Context(), &command.Env{Out: out, Err: out}, nil)
		root := &cobra.Command{Use: "tradewind", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(cli.SuspendCommands(app, cli.SuspendBrokers{
			Flags: func(*cobra.Command, *string) {},
			Find: func(context.Context, string) (*cli.Target, error) {
				return &cli.Target{SuspendBroker: h, Close: func() error { return nil }, Detail: unsavedJob,
					Queued: func(context.Context, string) ([]string, error) { return []string{"job-7", "job-8"}, nil },
					Job:    func(_ context.Context, name string) (string, error) { return "job-" + name, nil }}, nil
			},
		})...)
		root.SetArgs(strings.Fields(x.args))
		err := root.ExecuteContext(t.Context())
		switch asked := strings.Join(h.said, "; "); {
		case x.fails != "":
			if err == nil || !strings.Contains(err.Error(), x.fails) {
				t.Errorf("%s: fails with %v", x.args, err)
			}
		case x.silent != "" && strings.Contains(out.String(), x.silent):
			t.Errorf("%s: prints %q", x.args, out)
		case err != nil || asked != x.asked || !strings.Contains(out.String(), x.printed):
			t.Errorf("%s: asks %q and prints %q, %v", x.args, asked, out, err)
		}
	}
}

type jobsOfQueues struct{}

func (jobsOfQueues) Jobs(context.Context, int) (*apitypes.JobList, error) {
	return &apitypes.JobList{Jobs: []apitypes.JobView{
		{ID: "own", Queue: "lab", State: apitypes.JobRunning}, {ID: "below", Queue: "alice", State: apitypes.JobRunning},
		{ID: "old", Queue: "lab", State: apitypes.JobSucceeded}, {ID: "other", Queue: "default", State: apitypes.JobRunning},
	}}, nil
}

func (jobsOfQueues) Queues(context.Context) (*apitypes.QueueList, error) {
	return &apitypes.QueueList{Queues: []apitypes.Queue{
		{Name: "lab"}, {Name: "team", Parent: "lab"}, {Name: "alice", Parent: "team"}, {Name: "default"},
	}}, nil
}

func TestDrainExaminesJobsOfQueuesBelow(t *testing.T) {
	got, err := cli.QueuedJobs(t.Context(), jobsOfQueues{}, "lab")
	if err != nil || strings.Join(got, " ") != "own below" {
		t.Errorf("%v, %v", got, err)
	}
}
