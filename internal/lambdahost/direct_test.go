package lambdahost_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// bucket holds one DAG file, or fails.
type bucket struct {
	body string
	err  error
}

func (b *bucket) Open(context.Context, events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	return io.NopCloser(strings.NewReader(b.body)), "", b.err
}

func (*bucket) Settle(context.Context, string, string, *dag.Job) error { return nil }

// TestHandleDoor passes the event of a DAG file to submit as EventBridge does, and as the queue does after a redrive.
func TestHandleDoor(t *testing.T) {
	created, err := os.ReadFile("testdata/s3-object-created.json")
	if err != nil {
		t.Fatal(err)
	}
	files := &bucket{body: "apiVersion: tradewind/v1\nname: one\ntasks:\n  a: {run: \"true\"}\n"}
	woken := 0
	r := newRig(t, events.FnSubmit, func(with *setup) {
		with.objects = files
		with.after = func(context.Context) error { woken++; return nil }
	})
	ctx := context.Background()

	files.err = errors.New("slow down")
	if _, err := r.handler.HandleDirectOrSQS(ctx, created); err == nil {
		t.Error("Lambda does not retry")
	}
	files.err = nil
	for range 2 { // two events, one job
		if out, err := r.handler.HandleDirectOrSQS(ctx, created); err != nil || out != nil {
			t.Fatal(out, err)
		}
	}
	jobs, _, err := r.broker.Views.Jobs(ctx, "", 10)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if woken != 2 {
		t.Errorf("switched on %d times", woken)
	}

	batch, err := json.Marshal(awsevents.SQSEvent{Records: []awsevents.SQSMessage{r.raw("again", string(created)), r.raw("bad", "{}")}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.handler.HandleDirectOrSQS(ctx, batch)
	if answer, ok := out.(awsevents.SQSEventResponse); err != nil || !ok || len(answer.BatchItemFailures) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if r.queue.rejected["bad"] == "" {
		t.Error("an unreadable event is not a dead letter")
	}
}

// TestHandleDoorRejectsUnknownEvents: the function fails, so that Lambda keeps every unknown event as a dead letter.
func TestHandleDoorRejectsUnknownEvents(t *testing.T) {
	r := newRig(t, events.FnSubmit)
	for _, raw := range []string{`{}`, `null`, `[]`, `{"Records":null}`, `{"source":"aws.rds","id":"1","detail-type":"x","detail":{}}`} {
		if out, err := r.handler.HandleDirectOrSQS(context.Background(), json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %v", raw, out)
		}
	}
}
