package api_test

import (
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// TestAgentOfChunkActsForItsMembers: the agent of a chunk may send logs and outputs for the members of the chunk, and
// for no other task.
func TestAgentOfChunkActsForItsMembers(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 3))
	node := w.Node(job, "split", 0).Start()
	as := bearer(node.Token)
	attempt := record.ClusterID(job, 0, 1)
	w.Chunk(attempt, 2)
	member, next, foreign := record.ClusterID(job, 1, 1), record.ClusterID(job, 2, 1), record.ClusterID(job, 3, 1)
	empty(t, w.Do("POST", wire.PathLogs+"?offset=0&attempt="+member, "hello ", as))
	trouble(t, w.Do("POST", wire.PathLogs+"?offset=0&attempt="+foreign, "x", as), http.StatusForbidden)
	ask := func(attempt, task, of string) *http.Response {
		return w.Do("POST", wire.PathGrants, toJSON(t, wire.Wants{Attempt: attempt, Wants: []grant.Want{
			{Op: grant.Put, URI: w.URI(wire.OutputPrefix(job+"/"+task, of)) + "0/f", Size: 1}}}), as)
	}
	answer[wire.Granted](t, ask(attempt, "split", attempt), http.StatusOK)
	answer[wire.Granted](t, ask(member, "project-0000", member), http.StatusOK)
	trouble(t, ask(attempt, "project-0000", member), http.StatusUnprocessableEntity)
	trouble(t, ask(member, "project-0001", next), http.StatusUnprocessableEntity)
	trouble(t, ask(foreign, "project-0002", foreign), http.StatusGone)
	bad := wire.Report{ID: "1", Attempt: attempt, Event: wire.Succeeded, Chunk: []wire.ChunkEnd{{Attempt: foreign, Log: []byte("x")}}}
	trouble(t, w.Do("POST", wire.PathReport, toJSON(t, bad), as), http.StatusGone)
	good := wire.Report{ID: "2", Attempt: attempt, Event: wire.Succeeded, Empty: true, Log: []byte("first\n"), Chunk: []wire.ChunkEnd{
		{Attempt: member, Empty: true, Log: []byte("world\n"), LogFrom: 6},
		{Attempt: next, Failed: true, ExitCode: 3, Log: []byte("failed\n")}}}
	empty(t, w.Do("POST", wire.PathReport, toJSON(t, good), as))
	for task, want := range map[string]string{"0": "first\n", "1": "hello world\n", "2": "failed\n"} {
		if got := body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/"+task+"/logs", "")); got != want {
			t.Errorf("the log of task %s is %q", task, got)
		}
	}
	for task, want := range map[string]string{"project-0000": "succeeded", "project-0001": "failed"} {
		if got := w.Task(job, task).State; got != want {
			t.Errorf("%s is %s", task, got)
		}
	}
}
