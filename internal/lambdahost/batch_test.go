package lambdahost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// queue records the outcome of messages.
type queue struct {
	mu              sync.Mutex
	again, rejected map[string]string // message ID -> reason
	deaf            error             // of Reject
}

func newQueue() *queue { return &queue{again: map[string]string{}, rejected: map[string]string{}} }

func (q *queue) Adopt(_ context.Context, _ string, r busaws.Received) (bus.Delivery, bool, error) {
	env, err := busaws.Decode([]byte(r.Body))
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.rejected[r.MessageID] = err.Error()
		return bus.Delivery{}, false, nil
	}
	m := env.Message
	if env.Kind == busaws.External {
		m = bus.Message{ID: env.Foreign.ID, Body: env.Foreign.Raw}
	}
	return bus.Delivery{Message: m, Receipt: r.MessageID, Attempt: r.Attempt}, true, nil
}

func (q *queue) Nack(_ context.Context, _, receipt, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again[receipt] = reason
	return nil
}

func (q *queue) Reject(_ context.Context, _, receipt, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deaf != nil {
		return q.deaf
	}
	q.rejected[receipt] = reason
	return nil
}

// rig is a function whose records, events and queues are in memory.
type rig struct {
	*testing.T
	sandbox *lambdahost.Sandbox
	broker  *broker.Broker
	handler *lambdahost.Handler
	store   *mem.Store
	queue   *queue
	log     *bytes.Buffer
}

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// setup is how a test changes a rig.
type setup struct {
	lambdahost.Fakes
	announce []string
	planner  broker.Planner
	objects  broker.Objects
	after    func(context.Context) error
}

func newRig(t *testing.T, fn string, changes ...func(*setup)) *rig {
	t.Helper()
	env, err := load(deployed())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, store: mem.New(), queue: newQueue(), log: &bytes.Buffer{}}
	with := setup{Fakes: lambdahost.Fakes{Store: r.store, Queue: r.queue}}
	for _, change := range changes {
		change(&with)
	}
	env.Announce = with.announce
	if r.sandbox, err = lambdahost.NewForTest(fn, env, r.log, func() time.Time { return nine }, with.Fakes); err != nil {
		t.Fatal(err)
	}
	ports := r.sandbox.Ports()
	ports.Planner, ports.Objects = with.planner, with.objects
	if r.broker, err = r.sandbox.Broker(ports); err != nil {
		t.Fatal(err)
	}
	r.handler = &lambdahost.Handler{Sandbox: r.sandbox, Functions: r.broker.Functions, After: with.after}
	return r
}

// message is an event as EventBridge puts it in a queue.
func (r *rig) message(id string, data events.Data) awsevents.SQSMessage {
	r.Helper()
	body, err := events.New(id, "tradewind/test", nine, data).MarshalJSON()
	if err != nil {
		r.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{
		"version": "0", "id": "eb-" + id, "source": "tradewind", "detail-type": data.Type(), "resources": []string{},
		"detail": busaws.Detail{ID: id, Type: data.Type(), Group: data.Group(), Body: body},
	})
	if err != nil {
		r.Fatal(err)
	}
	return r.raw(id, string(raw))
}

func (r *rig) raw(id, body string) awsevents.SQSMessage {
	return awsevents.SQSMessage{MessageId: id, ReceiptHandle: "h-" + id, Body: body, Attributes: map[string]string{"ApproximateReceiveCount": "3"}}
}

// handle runs the function and returns the messages that must be delivered again.
func (r *rig) handle(ctx context.Context, messages ...awsevents.SQSMessage) []string {
	r.Helper()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	out, err := r.handler.HandleSQS(ctx, awsevents.SQSEvent{Records: messages})
	if err != nil {
		r.Fatal(err)
	}
	var again []string
	for _, f := range out.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	return again
}

// submitted stores a job whose tasks are all ready at once.
func (r *rig) submitted(tasks int) record.Job {
	r.Helper()
	spec := &dag.Job{Name: "wide", Objective: dag.MinimizeCost, Format: dag.Native}
	for i := range tasks {
		spec.Tasks = append(spec.Tasks, dag.Task{Name: fmt.Sprint("t", i), Run: "true", Nodes: 1})
	}
	job, err := r.broker.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		r.Fatal(err)
	}
	return job
}

func TestBatchSharesTransactionByGroup(t *testing.T) {
	commits := 0
	r := newRig(t, events.FnAdvance, func(with *setup) {
		with.Store = observed{with.Store, func(store.Tx) { commits++ }}
	})
	job := r.submitted(4)
	commits = 0
	again := r.handle(context.Background(), r.message("a", events.DAGAdvance{Job: job.ID}), r.message("b", events.DAGAdvance{Job: "other"}),
		r.message("c", events.DAGAdvance{Job: job.ID, From: 2}))
	if len(again) > 0 || commits != 1 {
		t.Errorf("again %v, %d commits", again, commits)
	}
}

// observed calls a function before each transaction is committed.
type observed struct {
	store.Store
	commit func(store.Tx)
}

func (o observed) Commit(ctx context.Context, tx store.Tx) error {
	o.commit(tx)
	return o.Store.Commit(ctx, tx)
}

func TestFailedMessageDoesNotBlockOthers(t *testing.T) {
	r := newRig(t, events.FnExecute)
	again := r.handle(context.Background(),
		r.message("good", events.ClusterUp{Cluster: "j.0.1", Job: "j"}),
		r.message("wrong", events.TaskReady{Job: "j"}), // execute does not react to it
		r.raw("torn", "{"),
		r.raw("odd", `{"specversion":"1.0","id":"odd","source":"s","type":"tradewind.odd.v1","data":{}}`),
		r.raw("foreign", string(document(t, "s3-object-deleted"))),
		r.message("fine", events.ClusterUp{Cluster: "k.0.1", Job: "k"}))
	if len(again) > 0 {
		t.Errorf("%v are delivered again, although a retry cannot succeed", again)
	}
	for id, want := range map[string]string{
		"wrong": "execute does not react to tradewind.task.ready.v1", "torn": "unreadable", "odd": "tradewind.odd.v1", "foreign": "Object Deleted",
	} {
		if !strings.Contains(r.queue.rejected[id], want) {
			t.Errorf("dead letter %s: %q does not say %q", id, r.queue.rejected[id], want)
		}
	}
	if len(r.queue.rejected) != 4 {
		t.Errorf("rejected %v", r.queue.rejected)
	}
}

func TestUnstoredDeadLetterIsRedelivered(t *testing.T) {
	r := newRig(t, events.FnExecute)
	r.queue.deaf = errors.New("SQS is away")
	if again := r.handle(context.Background(), r.message("wrong", events.TaskReady{Job: "j"})); len(again) != 1 || again[0] != "wrong" {
		t.Errorf("again %v", again)
	}
}

func TestTemporaryFailureBacksOff(t *testing.T) {
	away := errors.New("the table is away")
	r := newRig(t, events.FnExecute, func(with *setup) {
		with.Store = failing{with.Store, away}
	})
	again := r.handle(context.Background(), r.message("a", events.ClusterUp{Cluster: "j.0.1", Job: "j"}), r.message("b", events.ClusterUp{Cluster: "k.0.1", Job: "k"}))
	if len(again) != 2 || len(r.queue.again) != 2 || !strings.Contains(r.queue.again["a"], "away") || len(r.queue.rejected) > 0 {
		t.Errorf("again %v, backed off %v, rejected %v", again, r.queue.again, r.queue.rejected)
	}
}

// failing is a store that cannot be read.
type failing struct {
	store.Store
	err error
}

func (f failing) Get(context.Context, ...store.Key) ([]store.Record, error) { return nil, f.err }

func TestRepeatedDeliveryIsIdempotent(t *testing.T) {
	r := newRig(t, events.FnAdvance)
	job := r.submitted(2)
	cancel := r.message("cancel", events.DAGCancel{Job: job.ID, Reason: "no more"})
	for range 3 {
		if again := r.handle(context.Background(), cancel); len(again) > 0 {
			t.Fatal(again)
		}
	}
	endings := 0
	for _, e := range r.store.Pending() {
		if strings.Contains(string(e.Body), events.TypeDAGEnding) {
			endings++
		}
	}
	if endings != 1 {
		t.Errorf("the job was ended %d times", endings)
	}
}

// stuck is a store that returns only when its context ends, or never.
type stuck struct{ store.Store }

func (s stuck) Get(ctx context.Context, _ ...store.Key) ([]store.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestReturnsUnfinishedMessagesBeforeDeadline(t *testing.T) {
	var never chan struct{}
	for name, wrap := range map[string]func(store.Store) store.Store{
		"a handler that ends in time":     func(s store.Store) store.Store { return stuck{s} },
		"a handler that knows of no time": func(s store.Store) store.Store { return deaf{s, never} },
	} {
		synctest.Test(t, func(t *testing.T) { // the clock advances at once
			never = make(chan struct{})
			defer close(never)
			r := newRig(t, events.FnExecute, func(with *setup) {
				with.Store = wrap(with.Store)
			})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			again := r.handle(ctx, r.message("a", events.ClusterUp{Cluster: "j.0.1", Job: "j"}))
			if ctx.Err() != nil || len(again) != 1 {
				t.Errorf("%s: again %v, time %v", name, again, ctx.Err())
			}
		})
	}
}

// deaf is a store that does not notice the end of its context.
type deaf struct {
	store.Store
	never chan struct{}
}

func (d deaf) Get(context.Context, ...store.Key) ([]store.Record, error) {
	<-d.never
	return nil, nil
}

func TestMetrics(t *testing.T) {
	r := newRig(t, events.FnExecute)
	r.handle(context.Background(), r.message("a", events.ClusterUp{Cluster: "j.0.1", Job: "j"}), r.message("wrong", events.TaskReady{Job: "j"}))
	var metrics map[string]any
	for line := range strings.Lines(r.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q is no JSON", line)
		}
		if _, ok := m["_aws"]; ok {
			metrics = m
		} else if m["requestId"] != "request-1" || m["level"] == nil || m["message"] == nil || m["timestamp"] == nil || m["function"] != "execute" {
			t.Errorf("log line %q", line)
		}
	}
	if metrics["Events"] != 1.0 || metrics["DeadLetters"] != 1.0 || metrics["Deployment"] != "tw" || metrics["function"] != "execute" || metrics["Conflicts"] != nil {
		t.Errorf("%v", metrics)
	}
}

func TestPayloadsAreNotLogged(t *testing.T) {
	r := newRig(t, events.FnAdvance)
	secret := "hunter2-in-a-payload" //nolint:gosec // what must not be seen
	r.handle(context.Background(), r.message("a", events.DAGCancel{Job: "none", Reason: secret}), r.raw("b", `{"token":"`+secret+`"}`))
	if strings.Contains(r.log.String(), secret) {
		t.Errorf("the log has it: %s", r.log.String())
	}
}

func TestFailedAfterFailsBatch(t *testing.T) {
	ran := 0
	fails := errors.New("the schedules cannot be switched on")
	r := newRig(t, events.FnExecute, func(with *setup) {
		with.after = func(context.Context) error {
			ran++
			return fails
		}
	})
	if again := r.handle(context.Background(), r.message("a", events.ClusterUp{Cluster: "j.0.1", Job: "j"})); len(again) != 1 || ran != 1 {
		t.Errorf("again %v, ran %d", again, ran)
	}
	fails = nil
	if again := r.handle(context.Background(), r.message("a", events.ClusterUp{Cluster: "j.0.1", Job: "j"})); len(again) != 0 || ran != 2 {
		t.Errorf("again %v, ran %d", again, ran)
	}
	if r.handle(context.Background()); ran != 2 {
		t.Error("nothing was handled, and yet something followed")
	}
}
