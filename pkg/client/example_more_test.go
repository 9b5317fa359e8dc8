package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The task's local folder is uploaded. The value of a secret is passed separately from the job.
func ExampleTask_Workdir() {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		log.Fatal(err)
	}
	code, err := os.MkdirTemp("", "code")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(code) //nolint:errcheck // temporary
	err = os.WriteFile(filepath.Join(code, "hello.sh"), []byte(`echo "hello, a token of ${#TOKEN} letters"`), 0o600)
	if err != nil {
		log.Fatal(err)
	}
	b := client.NewJob("code").Secret("TOKEN", "correct horse")
	b.Task("hello", "sh hello.sh").Workdir(code).Secrets("TOKEN").Time(time.Minute)
	job, err := b.Job()
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.SubmitJob(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Wait(ctx, run.ID); err != nil {
		log.Fatal(err)
	}
	out, err := c.Log(ctx, run.ID, "hello", client.LogOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // only read from
	printed, err := io.ReadAll(out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(printed))
	// Output: hello, a token of 13 letters
}

// A job file contains the names of the job's secrets, but not their values.
func ExampleBuilder_Secret() {
	b := client.NewJob("train").Secret("HF_TOKEN", "hf_1234")
	b.Task("train", "python train.py").Secrets("HF_TOKEN").Repository("https://example.org/train.git", "v2")
	file, err := b.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(file))
	// Output:
	// apiVersion: tradewind/v1
	// name: train
	// objective: cost
	// tasks:
	//   train:
	//     run: python train.py
	//     secrets:
	//       - HF_TOKEN
	//     workdir: {url: 'https://example.org/train.git', ref: v2}
}

// Data in buckets can be mounted instead of being copied first.
func ExampleTask_Mount() {
	b := client.NewJob("scan")
	b.Task("scan", "./scan data results").
		Mount("s3://lab/genomes", "data", dag.MountRead).
		Mount("s3://lab/results", "results", dag.MountCached)
	file, err := b.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(file))
	// Output:
	// apiVersion: tradewind/v1
	// name: scan
	// objective: cost
	// tasks:
	//   scan:
	//     run: ./scan data results
	//     inputs:
	//       - {uri: 's3://lab/genomes', path: data, mount: true}
	//       - {uri: 's3://lab/results', path: results, mount: cached}
}

// A gang has two roles in one zone. A worker whose script fails restarts, at most three times, while the other
// members keep running. Two more machines may join.
func ExampleTask_Role() {
	b := client.NewJob("learn")
	gpu := client.Resources{Accelerators: "A100:1"}
	in := func(t *client.Task) *client.Task {
		return t.Framework(dag.PyTorch).Within(dag.WithinZone).On(gpu).Time(2 * time.Hour)
	}
	in(b.Task("head", "torchrun train.py")).Gang("learn").Role("master")
	in(b.Task("workers", "torchrun train.py")).Gang("learn").Role("worker").Nodes(6).
		React(dag.Reaction{Event: dag.PodFailed, Action: dag.RestartRole, Limit: 3})
	in(b.Task("more", "torchrun train.py")).Joins("learn").Role("worker").Nodes(2)
	job, err := b.Job()
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range job.Tasks {
		fmt.Println(t.Name, "is", t.Nodes, t.RoleName())
	}
	// Output:
	// head is 1 master
	// workers is 6 worker
	// more is 2 worker
}

// This is the application in the paper on the intercloud broker (SkyPilot, listing 1): a model is trained on one of
// two accelerators and then used. The estimate of the training time is the number of operations divided by the
// machine's rating.
func ExampleBuilder_vision() {
	b := client.NewJob("vision")
	train := b.Task("train", "python train.py").
		Input("s3://images/train", "", 150).Output("model", 2).
		On(client.Resources{Accelerators: "V100", CPUs: "4+"}).On(client.Resources{Accelerators: "tpu-v3-8"})
	const operations, efficiency = 3e18, 0.4
	hours := func(o apitypes.FittingOffer) time.Duration {
		return time.Duration(operations / (o.TFLOPS * 1e12 * efficiency) * float64(time.Second))
	}
	train.Time(hours(apitypes.FittingOffer{TFLOPS: 125}).Round(time.Minute)) // with a broker: train.Estimate(hours)
	b.Task("infer", "python infer.py").On(client.Resources{Accelerators: "T4"}).After("train").Time(time.Hour)
	file, err := b.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(file))
	// Output:
	// apiVersion: tradewind/v1
	// name: vision
	// objective: cost
	// tasks:
	//   train:
	//     run: python train.py
	//     inputs:
	//       - {uri: 's3://images/train', size: 150GiB}
	//     outputs:
	//       - {name: model, size: 2GiB}
	//     resources:
	//       anyOf:
	//         - {cpus: 4+, accelerators: 'V100:1'}
	//         - {accelerators: 'tpu-v3-8:1'}
	//     time: 16h40m
	//   infer:
	//     run: python infer.py
	//     after:
	//       - train
	//     resources: {accelerators: 'T4:1'}
	//     time: 1h
}
