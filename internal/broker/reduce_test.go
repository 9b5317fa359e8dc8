package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// metered is a store that counts requests as a store does that takes a hundred keys or a megabyte at once.
type metered struct {
	store.Store
	requests, records int
}

func (s *metered) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	s.requests += (len(keys) + 99) / 100
	s.records += len(keys)
	return s.Store.Get(ctx, keys...)
}

func (s *metered) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	records, more, err := s.Store.Query(ctx, partition, prefix, page)
	s.requests++
	s.records += len(records)
	return records, more, err
}

// maxAnswer is the maximum size of a function's answer on AWS.
const maxAnswer = 4 << 20

// TestReduceOverTenThousandParentsIsFast: the hello of a task with ten thousand parents reads them together, and its
// answer fits a response even if names have the maximum length.
func TestReduceOverTenThousandParentsIsFast(t *testing.T) {
	const parents = 10_000
	name := func(i int) string { return fmt.Sprintf("part-%05d-%s", i, strings.Repeat("n", 128-11)) }
	p := &agentBench{bench: newBench(t)}
	spec := &dag.Job{Name: "reduce", Objective: dag.MinimizeCost, Format: dag.Native}
	res := []dag.Resources{{CPUs: dag.Range{Min: 2}}}
	for i := range parents {
		spec.Tasks = append(spec.Tasks, dag.Task{Name: name(i), Run: "x", Nodes: 1, Resources: res})
		spec.Edges = append(spec.Edges, dag.Edge{From: i, To: parents})
	}
	spec.Tasks = append(spec.Tasks, dag.Task{Name: "reduce", Run: "x", Nodes: 1, Resources: res})
	job, err := p.b.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	p.job = job.ID
	p.deliverAll(events.TypeTaskReady, events.TypeDAGAdvance)
	done := record.Progress{Phases: bytes.Repeat([]byte{record.PhaseSucceeded}, parents+1), Succeeded: parents - 1}
	done.Phases[0], done.Phases[parents] = record.PhaseReady, record.PhaseWaiting
	p.put("progress", done)
	for i := range parents {
		p.put(fmt.Sprintf("task#%06d", i), record.Task{
			Job: job.ID, Index: i, State: record.TaskSucceeded, Try: 1, Attempt: 1, Progress: 1, Place: "aws:us-east-1",
			Output: wire.OutputPrefix(job.ID+"/"+name(i), record.ClusterID(job.ID, i, 1)),
		})
	}
	if err := p.b.Functions.Emit(t.Context(), "test", "last", events.TaskSucceeded{Job: job.ID, Task: 0}); err != nil {
		t.Fatal(err)
	}
	p.deliverAll()
	ports := p.b.Ports()
	look := &metered{Store: p.store}
	ports.Store = look
	b := broker.New(config.Default(), ports)
	w := hello(t, b, p.claims(parents, 0))
	if w.Command != wire.Run || len(w.Assignment.Parents) != parents {
		t.Fatalf("got command %q with %d parents", w.Command, len(w.Assignment.Parents))
	}
	answer, err := json.Marshal(w)
	if err != nil || len(answer) > maxAnswer {
		t.Errorf("the answer has %d bytes, %v", len(answer), err)
	}
	if look.requests > 40 {
		t.Errorf("it takes %d requests for %d records", look.requests, look.records)
	}
	t.Logf("%d requests, %d records, an answer of %d bytes", look.requests, look.records, len(answer))
}

// put writes a record of the agentBench's job.
func (p *agentBench) put(sort string, v any) {
	p.t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	w := store.Write{Key: store.Key{Partition: "job#" + p.job, Sort: sort}, Expect: store.Any, Body: body}
	if err := p.store.Commit(p.t.Context(), store.Tx{Writes: []store.Write{w}}); err != nil {
		p.t.Fatal(err)
	}
}
