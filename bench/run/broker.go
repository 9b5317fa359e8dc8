package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/instant"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// finishedJobs receives the ends of jobs.
type finishedJobs chan events.DAGFinished

func (t finishedJobs) Notify(_ context.Context, e events.Event) error {
	if d, ok := e.Data.(events.DAGFinished); ok {
		t <- d
	}
	return nil
}

// rig is a broker on disk that waits for every commit, with clouds that answer immediately.
type rig struct {
	b     *broker.Broker
	done  finishedJobs
	close func() error
}

func newRig(ctx context.Context) (*rig, error) {
	host.TuneMemory()
	dir, err := os.MkdirTemp("", "tradewind-bench-*")
	if err != nil {
		return nil, err
	}
	file, err := bolt.OpenFile(filepath.Join(dir, "tradewind.db"), bolt.Options{})
	if err != nil {
		return nil, err
	}
	bs, err := local.New(file, local.Config{Queues: host.Queues(), Route: events.Routes()})
	if err != nil {
		return nil, err
	}
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	const most = 1 << 17
	agents := &instant.Agents{Launched: make(chan string, most), Ready: make(chan string, most)}
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = instant.New(name, agents.Launched)
	}
	r := &rig{done: make(finishedJobs, 16)}
	var engine *host.Engine
	r.b = broker.New(config.Default(), broker.Ports{
		Store: bolt.New(file), Bus: bs, Clouds: clouds, Planner: planner.New(c, moves, planner.DefaultOptions()),
		Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: time.Now, Hook: r.done,
		Changed: agents.Changed, Committed: func(context.Context, []store.Event) { engine.Wake() },
	})
	agents.Broker = r.b
	engine = host.NewEngine(r.b.Functions, bs, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{}, 2)
	go func() { _ = engine.Run(ctx); ended <- struct{}{} }()
	go func() { _ = agents.Run(ctx, 64); ended <- struct{}{} }()
	r.close = func() error {
		cancel()
		<-ended
		<-ended
		return errors.Join(bs.Close(), file.Close(), os.RemoveAll(dir))
	}
	return r, nil
}

// layered is a DAG of n recorded tasks in layers; each task depends on one of the previous layer.
func layered(n, width int) *dag.Job {
	j := &dag.Job{Name: "layered", Objective: dag.MinimizeCost, Format: dag.Native}
	for i := range n {
		j.Tasks = append(j.Tasks, dag.Task{
			Name: fmt.Sprintf("t%05d", i), Nodes: 1, Recorded: time.Second,
			Time: dag.TimeEstimate{Default: time.Minute}, Resources: []dag.Resources{{CPUs: dag.Range{Min: 2}}},
		})
		if i >= width {
			j.Edges = append(j.Edges, dag.Edge{From: i - width, To: i, Data: 0.01})
		}
	}
	return j
}

// transitionsOf is the number of state changes of a task: ready, admitted, launching, running, succeeded, released. The
// benchmark commits each of them and waits for the commit.
const transitionsOf = 6

func brokerRows(ctx context.Context) ([]benchreport.Row, error) {
	r, err := newRig(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := measureBroker(ctx, r)
	return rows, errors.Join(err, r.close())
}

func measureBroker(ctx context.Context, r *rig) ([]benchreport.Row, error) {
	const command = "bin/bench/run -only broker"
	var rows []benchreport.Row
	for name, width := range map[string]int{"2,000 tasks in parallel": rateTasks,
		"2,000 tasks in ten layers": rateTasks / 10} {
		rates, err := rate(ctx, r, width)
		if err != nil {
			return nil, err
		}
		rows = append(rows, benchreport.Row{
			Measure: "durable task transitions a second, one process, " + name, Target: "5,000",
			Result: fmt.Sprintf("%.0f (median of %d; %.0f to %.0f)", rates[len(rates)/2], len(rates), rates[0],
				rates[len(rates)-1]), Command: command,
		})
	}
	slices.SortFunc(rows, func(a, b benchreport.Row) int { return strings.Compare(a.Measure, b.Measure) })
	p50, p99, err := eventToPlan(ctx, r)
	return append(rows, benchreport.Row{
		Measure: "event to plan, 100-task DAG, 99th percentile", Target: "50 ms",
		Result: fmt.Sprintf("%.1f ms (median %.1f ms)", p99, p50), Command: command,
	}), err
}

const rateTasks = 2000

// rate runs a job several times and returns the transitions per second of each run, sorted.
func rate(ctx context.Context, r *rig, width int) ([]float64, error) {
	const repeats = 5
	var rates []float64
	for i := range repeats {
		begin := time.Now()
		if _, err := r.b.Users.Submit(ctx,
			broker.Submission{Spec: layered(rateTasks, width), Token: fmt.Sprint("rate", width, i)}); err != nil {
			return nil, err
		}
		if d := <-r.done; d.Outcome != "succeeded" {
			return nil, fmt.Errorf("job %s: %s", d.Outcome, d.Reason)
		}
		rates = append(rates, rateTasks*transitionsOf/time.Since(begin).Seconds())
	}
	slices.Sort(rates)
	return rates, nil
}

// eventToPlan submits jobs of 100 tasks one after the other, and measures from just before the submission until the
// plan is committed.
func eventToPlan(ctx context.Context, r *rig) (p50, p99 float64, err error) {
	const repeats = 1000 // with fewer, garbage collections determine the 99th percentile
	var took []float64
	for i := range repeats {
		begin := time.Now()
		job, err := r.b.Users.Submit(ctx, broker.Submission{Spec: layered(100, 10), Token: fmt.Sprint("plan", i)})
		if err != nil {
			return 0, 0, err
		}
		for {
			v, err := r.b.Views.JobView(ctx, job.ID)
			if err != nil {
				return 0, 0, err
			}
			if v.Plan > 0 {
				break
			}
			time.Sleep(200 * time.Microsecond) // the measure's resolution
		}
		took = append(took, time.Since(begin).Seconds()*1000)
		<-r.done
	}
	slices.Sort(took)
	return took[repeats/2], took[repeats*99/100], nil
}
