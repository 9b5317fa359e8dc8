package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// TestMain runs the examples with a broker whose machines are processes of this program. The examples find the broker
// as the command line does.
func TestMain(m *testing.M) {
	proc.Reexec()
	rsh.Reexec()
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		os.Exit(agent.Main(os.Environ(), "test", pool.RunWorker))
	}
	os.Exit(onABroker(m.Run))
}

func onABroker(run func() int) int {
	state, err := os.MkdirTemp("", "tradewind-client")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state) //nolint:errcheck // temporary
	ctx, stop := context.WithCancel(context.Background())
	h, err := host.Open(ctx, host.Options{State: state, TimeScale: 0.001})
	if err != nil {
		log.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- h.Serve(ctx) }()
	_ = os.Unsetenv(client.EnvEndpoint)
	_ = os.Setenv("TRADEWIND_STATE", state)
	code := run()
	stop()
	if err := errors.Join(<-over, h.Close()); err != nil {
		log.Print(err)
		return 1
	}
	return code
}

// This example builds a job of two tasks, submits it, waits for it, and prints its output.
func Example() {
	ctx := context.Background()
	c, err := client.Find(ctx) // finds the broker as the command line does
	if err != nil {
		log.Fatal(err)
	}
	b := client.NewJob("numbers").Deadline(6 * time.Hour).Budget(5)
	b.Task("data", `seq 4 > "$TRADEWIND_OUTPUT/numbers"`).Time(time.Minute)
	b.Task("sum", `awk '{s += $1} END {print s}' "$TRADEWIND_INPUTS/data/numbers"`).
		After("data").On(client.Resources{CPUs: "2+", Memory: "4+"}).Time(time.Minute)
	job, err := b.Job()
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.SubmitJob(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	ended, err := c.Wait(ctx, run.ID)
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.Log(ctx, run.ID, "sum", client.LogOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // only read from
	printed, err := io.ReadAll(out)
	fmt.Printf("%s, %d of %d tasks\n%s", ended.State, ended.Succeeded, ended.Tasks, printed)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// succeeded, 2 of 2 tasks
	// 10
}

// A plan states where a job would run and the cost. Nothing runs.
func ExampleClient_PlanJob() {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		log.Fatal(err)
	}
	b := client.NewJob("train")
	b.Task("train", "python train.py").On(client.Resources{Accelerators: "V100:1"}).Time(2 * time.Hour)
	job, err := b.Job()
	if err != nil {
		log.Fatal(err)
	}
	plan, err := c.PlanJob(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Status, len(plan.Tasks), plan.USD > 0, plan.Tasks[0].Offer != "")
	// Output: optimal 1 true true
}

// Wait returns a *JobFailed with the reason if the job does not succeed.
func ExampleClient_Wait() {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		log.Fatal(err)
	}
	b := client.NewJob("broken")
	b.Task("broken", "exit 3").Time(time.Minute)
	job, err := b.Job()
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.SubmitJob(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Wait(ctx, run.ID)
	var failed *client.JobFailed
	fmt.Println(errors.As(err, &failed), failed.Job.State, failed.Job.Name)
	// Output: true failed broken
}

// An error in a job file is an *apitypes.Problem with the line and the field.
func ExampleClient_Submit() {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		log.Fatal(err)
	}
	file := "apiVersion: tradewind/v1\nname: x\ntasks:\n  a: {run: 'true', after: [b]}\n"
	_, err = c.Submit(ctx, "x.yaml", "", []byte(file), nil)
	var p *apitypes.Problem
	fmt.Println(errors.As(err, &p), p.File, p.Line, p.Field)
	// Output: true x.yaml 4 tasks.a.after[0]
}

// A gang starts as a whole or not at all. `tradewind submit` accepts the printed file.
func ExampleBuilder() {
	b := client.NewJob("gang").Fastest().Budget(40)
	b.Task("data", "python prepare.py").Output("samples", 40).Time(20 * time.Minute)
	b.Task("server", "python serve.py").After("data").Gang("learn").Time(time.Hour)
	b.Task("worker", "python train.py").After("data").Gang("learn").Nodes(4).Retries(1).
		On(client.Resources{Accelerators: "V100:1"}).Checkpoint("ckpt/", 15*time.Minute).
		Time(3*time.Hour).TimeOn("V100", 2*time.Hour)
	file, err := b.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(file))
	// Output:
	// apiVersion: tradewind/v1
	// name: gang
	// objective: makespan
	// budget: 40
	// tasks:
	//   data:
	//     run: python prepare.py
	//     outputs:
	//       - {name: samples, size: 40GiB}
	//     time: 20m
	//   server:
	//     run: python serve.py
	//     after:
	//       - data
	//     gang: learn
	//     time: 1h
	//   worker:
	//     run: python train.py
	//     nodes: 4
	//     after:
	//       - data
	//     gang: learn
	//     checkpoint: {every: 15m, path: ckpt/}
	//     resources: {accelerators: 'V100:1'}
	//     time: {V100: 2h, default: 3h}
	//     retries: 1
}
