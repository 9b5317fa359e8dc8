package attempt_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// chunk returns an array, and an attempt that runs its members 0 to 3 on a worker.
func chunk() (record.Cluster, record.Task, *dag.Job) {
	cl, task := onWorker(paid(), 2*time.Minute)
	cl.Chunk, task.Chunk = 3, 3
	cl.State, cl.Up = record.ClusterUp, sharedAt.Add(time.Second)
	spec := &dag.Job{Arrays: []dag.Array{{Name: "a", Size: 4, Values: []string{"w", "x", "y", "z"}}}}
	for i := range 4 {
		spec.Tasks = append(spec.Tasks, dag.Task{Name: fmt.Sprintf("a[%d]", i), Run: "true",
			Env: map[string]string{"ALL": "1"}, Outputs: []dag.Output{{Name: "o", URI: "s3://b/" + fmt.Sprintf("a[%d]", i)}}})
	}
	return cl, task, spec
}

func TestAssignmentOfChunkHasEachMember(t *testing.T) {
	cl, task, spec := chunk()
	a := attempt.Assignment(paid(), record.Job{ID: "j"}, spec, cl, task, apitypes.Attempt{}, attempt.Inherited{})
	if len(a.Chunk) != 3 {
		t.Fatalf("it has %d other members", len(a.Chunk))
	}
	m := a.Member(a.Chunk[1])
	if m.Task != "a[2]" || m.Attempt != "j.2.1" || m.Prefix != "j/a~2" || m.Run != "true" || m.Chunk != nil ||
		m.Env["TRADEWIND_ARRAY_VALUE"] != "y" || m.Env["TRADEWIND_ARRAY_INDEX"] != "2" || m.Env["ALL"] != "1" ||
		len(m.Outputs) != 1 || m.Outputs[0].URI != "s3://b/a[2]" {
		t.Errorf("a[2] gets %+v", m)
	}
	if a.Env["TRADEWIND_ARRAY_VALUE"] != "w" {
		t.Errorf("the first member has the variables %v", a.Env)
	}
}

// TestEndOfChunkEndsEachMember: of the members of a chunk, one succeeds, one fails and the last does not run. The end
// of the chunk must give each member its own outcome.
func TestEndOfChunkEndsEachMember(t *testing.T) {
	cl, task, spec := chunk()
	now := sharedAt.Add(time.Minute)
	st := attempt.Reporting{Cluster: cl, Task: task, Spec: &spec.Tasks[0], Members: spec.Tasks[1:4], Now: now,
		Attempt: apitypes.Attempt{Job: "j", Number: 1, OfferID: "o"}}
	d := st.Decide(wire.Report{Event: wire.Succeeded, Ran: 10 * time.Second, Chunk: []wire.ChunkEnd{
		{Attempt: "j.1.1", Ran: 20 * time.Second},
		{Attempt: "j.2.1", Ran: 5 * time.Second, Failed: true, ExitCode: 7, Phase: wire.PhaseRun, Message: "exit code 7"},
		{Attempt: "other.3.1", Ran: time.Second},
	}}, paid())
	tasks, made := map[int]record.Task{}, map[int]apitypes.Attempt{}
	for _, w := range d.Writes {
		switch v := w.Value.(type) {
		case record.Task:
			tasks[v.Index] = v
		case apitypes.Attempt:
			made[v.Task] = v
		}
	}
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	for i, want := range []struct {
		state    record.TaskState
		from, to int
	}{{record.TaskSucceeded, -36, -26}, {record.TaskSucceeded, -26, -6}, {record.TaskFailed, -6, -1}} {
		if got := tasks[i]; got.State != want.state || !got.StartedAt.Equal(at(want.from)) || !got.EndedAt.Equal(at(want.to)) ||
			got.Attempt != 1 {
			t.Errorf("member %d: %+v", i, got)
		}
	}
	if _, has := tasks[3]; has || len(tasks) != 3 {
		t.Errorf("records of %d members, one of which did not run", len(tasks))
	}
	if got := made[1]; got.Outcome != apitypes.OutcomeSucceeded || got.OfferID != "o" || !got.Ended.Equal(at(-6)) ||
		tasks[1].Output != "j/a~1/out/j.1.1/" {
		t.Errorf("attempt %+v, output %s", got, tasks[1].Output)
	}
	if got := made[2]; got.Outcome != apitypes.OutcomeFailed || got.Failure.ExitCode != 7 || tasks[2].Output != "" {
		t.Errorf("attempt %+v", got)
	}
	var told events.TaskSucceeded
	var failed events.TaskFailed
	for _, e := range d.Emits {
		switch e := e.(type) {
		case events.TaskSucceeded:
			told = e
		case events.TaskFailed:
			failed = e
		}
	}
	if !slices.Equal(told.Also, []int{1}) || !slices.Equal(told.NotRun, []int{3}) || failed.Task != 2 || failed.ExitCode != 7 ||
		failed.Cluster != "" {
		t.Errorf("it emits %+v and %+v", told, failed)
	}
}

func TestMemberClusterIsThatOfItsChunk(t *testing.T) {
	cl, _, _ := chunk()
	for id, ok := range map[string]bool{"j.1.1": true, "j.3.1": true, "j.4.1": false, "j.1.2": false, "j.0.1": false, "k.1.1": false} {
		m, got := attempt.MemberCluster(cl, id)
		if got != ok || ok && (m.ID != id || m.Chunk != 0 || m.Attempt != 1) {
			t.Errorf("%s: %+v, %v", id, m, got)
		}
	}
}
