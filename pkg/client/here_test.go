package client_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// found returns a client of the tests' broker.
func found(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSubmitJobUploadsLocalFiles(t *testing.T) {
	ctx, c := context.Background(), found(t)
	t.Chdir(t.TempDir())
	b := client.NewJob("cat")
	b.Task("cat", "grep -q 42 answer").Input("answer.txt", "answer", 0).Time(time.Minute)
	job, err := b.Job()
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"submit": func() error { _, err := c.SubmitJob(ctx, job); return err },
		"plan":   func() error { _, err := c.PlanJob(ctx, job); return err },
	} {
		var bad *dag.Error
		if err := call(); !errors.As(err, &bad) || bad.Field != "tasks.cat.inputs[0]" ||
			!strings.Contains(bad.Reason, "there is no ") || !strings.Contains(bad.Hint, "paths begin at ") {
			t.Errorf("%s of a job with a missing file: %v", what, err)
		}
	}
	if err := os.WriteFile("answer.txt", []byte("42\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PlanJob(ctx, job); err != nil {
		t.Error(err)
	}
	run, err := c.SubmitJob(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, run.ID); err != nil {
		t.Error(err)
	}
	if in := job.Tasks[0].Inputs[0]; in.URI != "answer.txt" || in.Size != 0 {
		t.Errorf("the caller's job was changed: %+v", in)
	}
}

func TestSubmitJobRejectsSecretWithoutValue(t *testing.T) {
	b := client.NewJob("s")
	b.Task("s", "true").Secrets("TOKEN", "KEY").Secrets("KEY")
	b.Secret("TOKEN", "x")
	job, err := b.Job()
	if err != nil {
		t.Fatal(err)
	}
	_, err = found(t).SubmitJob(context.Background(), job)
	var bad *dag.Error
	if !errors.As(err, &bad) || bad.Field != "tasks.s.secrets.KEY" || !strings.Contains(bad.Hint, "Builder.Secret") {
		t.Errorf("got %v", err)
	}
}

// A caller ignores the error of Builder.Job and submits the nil job. This must be an error.
func TestNilJobIsError(t *testing.T) {
	c := found(t)
	_, submitted := c.SubmitJob(context.Background(), nil)
	_, planned := c.PlanJob(context.Background(), nil)
	for _, err := range []error{submitted, planned} {
		if err == nil || !strings.Contains(err.Error(), "there is no job") {
			t.Errorf("got %v", err)
		}
	}
}

func TestWaitTimeoutSaysJobContinues(t *testing.T) {
	ctx, c := context.Background(), found(t)
	b := client.NewJob("long")
	b.Task("long", "exec sleep 600").Time(time.Hour)
	job, err := b.Job()
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.SubmitJob(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = c.Wait(late, run.ID)
	want := "job " + run.ID + " continues, only the wait for it has ended: context deadline exceeded"
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnreachable) || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := c.Cancel(ctx, run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
}

func TestUnauthorizedSaysWhereToFindToken(t *testing.T) {
	broker, some, err := localfiles.FindRunning("")
	if err != nil || !some {
		t.Fatal(some, err)
	}
	for given, want := range map[string]string{
		"":                 "none is set",
		"0123456789":       "does not accept the user token",
		broker.Token + "x": "does not accept the user token",
	} {
		_, err := client.New(broker.URL, given).Jobs(context.Background(), 1)
		var p *apitypes.Problem
		if !errors.As(err, &p) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "$TRADEWIND_TOKEN") || strings.Contains(err.Error(), "Bearer") {
			t.Errorf("%q: %v", given, err)
		}
	}
}
