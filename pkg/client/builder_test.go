package client_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestBuilderReportsErrors(t *testing.T) {
	for want, build := range map[string]func(*client.Builder){
		`tasks.b.after[1]: waits for "dta", which is no task of the job (did you mean "data"?)`: func(b *client.Builder) {
			b.Task("data", "true")
			b.Task("b", "true").After("data", "dta")
		},
		`tasks.a.inputs[1].mount: says no way`: func(b *client.Builder) {
			b.Task("a", "true").Input("s3://x/y", "y", 1).Mount("s3://x/z", "z", dag.Copied)
		},
		"secrets.TOKEN: is empty": func(b *client.Builder) { b.Secret("TOKEN", "").Task("a", "true").Secrets("TOKEN") },
		"tasks.a.secrets.X: is in both env and secrets": func(b *client.Builder) {
			b.Task("a", "true").Env("X", "1").Secrets("X")
		},
		"tasks.a.role: only a task of a gang has a role": func(b *client.Builder) { b.Task("a", "true").Role("worker") },
		"tasks.a.workdir: is both": func(b *client.Builder) {
			b.Task("a", "true").Workdir("code").Repository("https://example.org/code", "")
		},
		"tasks.a.on[0].action": func(b *client.Builder) { b.Task("a", "true").React(dag.Reaction{Event: dag.PodFailed}) },
		"tasks.a.resources":    func(b *client.Builder) { b.Task("a", "true").On(client.Resources{CPUs: "many"}) },
		"keepOnFailure":        func(b *client.Builder) { b.KeepOnFailure(-time.Hour).Task("a", "true") },
		"tasks.a.time":         func(b *client.Builder) { b.Task("a", "true").TimeOn("", time.Hour) },
		"tasks.a.time: is an estimator": func(b *client.Builder) {
			b.Task("a", "true").Estimate(func(apitypes.FittingOffer) time.Duration { return time.Hour })
		},
		"placement[0].of[1]": func(b *client.Builder) {
			b.Task("a", "true")
			b.Place(dag.Placement{Spread: dag.LevelZone, Of: []string{"a", "b"}})
		},
		"tasks.a.placement[0].pack": func(b *client.Builder) { b.Task("a", "true").Place(dag.Placement{Pack: dag.LevelMachine}) },
		"tasks.a.labels":            func(b *client.Builder) { b.Task("a", "true").Label("app", "no label") },
		"tasks wait for each other": func(b *client.Builder) {
			b.Task("a", "true").After("b")
			b.Task("b", "true").After("a")
		},
		"is the name of two tasks": func(b *client.Builder) {
			b.Task("a", "true")
			b.Task("a", "true")
		},
	} {
		b := client.NewJob("j")
		build(b)
		var bad *dag.Error
		if _, err := b.Job(); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T %v, want %q", err, err, want)
		}
	}
}

func TestBuilderCanBuildTwice(t *testing.T) {
	b := client.NewJob("j")
	b.Task("b", "true").After("a", "a")
	b.Task("a", "true")
	first, err := b.Job()
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Job()
	if err != nil || len(first.Tasks) != 2 || len(second.Tasks) != 2 || len(second.Edges) != 1 {
		t.Fatalf("%d tasks, then %d with %d edges, %v", len(first.Tasks), len(second.Tasks), len(second.Edges), err)
	}
}

func TestFindWithoutBroker(t *testing.T) {
	if _, err := client.In(t.TempDir()); !errors.Is(err, client.ErrNoBroker) {
		t.Fatalf("got %v", err)
	}
}

func TestFindPrefersEnvironment(t *testing.T) {
	t.Setenv(client.EnvEndpoint, "http://broker.example.com")
	var bad *client.EndpointError
	if _, err := client.Find(context.Background()); !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
}

func TestCancel(t *testing.T) {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := c.Cancel(ctx, run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Wait(ctx, run.ID)
	var failed *client.JobFailed
	if !errors.As(err, &failed) || failed.Job.State != apitypes.JobCancelled || !strings.Contains(err.Error(), "cancelled") {
		t.Fatalf("got %v", err)
	}
}

// TestEveryResourceReachesJob: every resource that a caller sets must be in the job.
func TestEveryResourceReachesJob(t *testing.T) {
	b := client.NewJob("x").Weigh(dag.Weights{Cost: 1, Time: 0.5})
	b.Task("a", "true").On(client.Resources{CPUs: "4", Memory: "16", Cloud: "aws", Region: "us-east-1",
		Family: "c7a", CPU: "genoa", Arch: "amd64", Market: dag.MarketSpot, Disk: 50})
	b.Task("b", "true").On(client.Resources{Accelerators: "A100:2", InstanceType: "p4d.24xlarge", Image: "docker:x"})
	job, err := b.Job()
	if err != nil {
		t.Fatal(err)
	}
	if job.Objective != dag.MinimizeWeighted || *job.Weights != (dag.Weights{Cost: 1, Time: 0.5}) {
		t.Errorf("%s, %+v", job.Objective, job.Weights)
	}
	got := job.Tasks[0].Resources[0]
	want := dag.Resources{CPUs: got.CPUs, Memory: got.Memory, Cloud: "aws", Region: "us-east-1", Family: "c7a",
		CPU: "genoa", Arch: "amd64", Market: dag.MarketSpot, DiskGiB: 50}
	if !reflect.DeepEqual(got, want) || got.CPUs.Min != 4 || got.Memory.Min != 16 {
		t.Errorf("%+v", got)
	}
	if got := job.Tasks[1].Resources[0]; got.Accelerator != "A100" || got.AcceleratorCount != 2 ||
		got.InstanceType != "p4d.24xlarge" || got.Image != "docker:x" {
		t.Errorf("%+v", got)
	}
}
