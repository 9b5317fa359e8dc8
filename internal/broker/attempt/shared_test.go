package attempt_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

var sharedAt = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// onWorker returns the start of an attempt on a worker of its job. The attempt is expected to take the given time.
func onWorker(cfg config.Config, expected time.Duration) (record.Cluster, record.Task) {
	made := apitypes.Attempt{Job: "j", Number: 1, Nodes: 1, Hosts: []string{"w4-1"},
		Offer: apitypes.Offer{Cloud: apitypes.PoolCloud, Region: record.JobPool("j")}}
	task := record.Task{Job: "j", Attempt: 1, State: record.TaskAdmitted}
	d := attempt.DecideOnWorker(record.Job{ID: "j", Queue: "q"}, &task, made, cfg, nil, expected, sharedAt)
	cl, _ := d.Writes[0].Value.(record.Cluster)
	return cl, task
}

// paid is the configuration of a broker that pays for each call.
func paid() config.Config {
	cfg := config.Default()
	cfg.Pace = wire.Pace{Polls: true, Tail: 1}
	return cfg
}

// TestSuccessOnWorkerFreesItsRoomAtOnce: the success of a task on a worker frees its room in the same decision. Only
// if uploads are open does the success lead to a release first, which ends them.
func TestSuccessOnWorkerFreesItsRoomAtOnce(t *testing.T) {
	for _, uploads := range []bool{false, true} {
		cl, task := onWorker(config.Default(), time.Hour)
		cl.State, cl.Up = record.ClusterUp, sharedAt
		st := attempt.Reporting{Cluster: cl, Task: task, Spec: &dag.Task{}, Uploads: uploads, Now: sharedAt.Add(time.Hour)}
		d := st.Decide(wire.Report{Event: wire.Succeeded}, config.Default())
		freed, released := false, false
		for _, e := range d.Emits {
			switch e := e.(type) {
			case events.CapacityFreed:
				freed = e.Cluster == cl.ID && e.Queue == "q"
			case events.TaskSucceeded:
				released = e.Cluster == cl.ID
			}
		}
		if freed == uploads || released != uploads {
			t.Errorf("with uploads %v it emits %+v", uploads, d.Emits)
		}
	}
}

func TestShortTaskOnWorkerIsQuiet(t *testing.T) {
	for _, c := range []struct {
		cfg      config.Config
		expected time.Duration
		quiet    bool
	}{{paid(), 30 * time.Second, true}, {paid(), 2 * time.Minute, false}, {config.Default(), 30 * time.Second, false}} {
		cl, task := onWorker(c.cfg, c.expected)
		spec := &dag.Job{Tasks: []dag.Task{{}}}
		a := attempt.Assignment(c.cfg, record.Job{ID: "j"}, spec, cl, task, apitypes.Attempt{}, attempt.Inherited{})
		if quiet := a.Pace.Quiet > 0; quiet != c.quiet {
			t.Errorf("a task of %v is quiet: %v", c.expected, quiet)
		}
		cl.State, cl.Up = record.ClusterUp, sharedAt.Add(time.Second)
		cl.UpdateTask(&task)
		if running := task.State == record.TaskRunning; running != c.quiet {
			t.Errorf("a task of %v that is up is %s", c.expected, task.State)
		}
	}
}

// TestQuietTaskRunsSinceItsAgentStartedIt: the agent reports a success without having reported the start. The start
// is then calculated from the run time in the report, but is never before the machine was up.
func TestQuietTaskRunsSinceItsAgentStartedIt(t *testing.T) {
	cl, task := onWorker(paid(), 30*time.Second)
	cl.State, cl.Up = record.ClusterUp, sharedAt.Add(time.Second)
	st := attempt.Reporting{Cluster: cl, Task: task, Spec: &dag.Task{}, Now: sharedAt.Add(40 * time.Second)}
	st.Decide(wire.Report{Event: wire.Succeeded, Ran: 30 * time.Second}, paid())
	if want := sharedAt.Add(10 * time.Second); !st.Cluster.Running.Equal(want) || !st.Task.StartedAt.Equal(want) {
		t.Errorf("it runs since %v and %v, not %v", st.Cluster.Running, st.Task.StartedAt, want)
	}
	st.Cluster, st.Task = cl, task
	st.Cluster.Nodes = []record.Node{{}}
	st.Decide(wire.Report{Event: wire.Succeeded, Ran: time.Hour}, paid())
	if !st.Cluster.Running.Equal(cl.Up) {
		t.Errorf("it runs since %v, before it was up", st.Cluster.Running)
	}
}
