package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// sizes are the sizes of the situations.
type sizes struct {
	parents         int // dependencies of a task
	budgeted, small int // tasks of the job whose budget is used up, and number of jobs behind it
	queues          int
	tasks, running  int // of the job that the user watches
}

// large are the sizes at which no limit may be reached.
func large() sizes {
	return sizes{parents: 10_000, budgeted: 10_000, small: 10_000, queues: 1_000, tasks: 20_000, running: 100}
}

// runSituations runs every situation, or only the named one, each in a new deployment.
func runSituations(ctx context.Context, z sizes, only string, p environment) (rows []*row, err error) {
	for _, s := range []struct {
		name string
		play func(context.Context, *deployment, sizes) error
	}{{"reduce", reduce}, {"behind", behind}, {"queues", queues}, {"look", look}} {
		if only != "" && only != s.name {
			continue
		}
		begin := time.Now()
		d, err := deploy(ctx, p, s.name)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(s.play(ctx, d, z), d.close()); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.name, p.name, err)
		}
		rows = append(rows, d.rows...)
		p.tell("%s, %s: %.0f s including setup", s.name, p.name, time.Since(begin).Seconds())
		for _, r := range d.rows {
			p.tell("  %s: %s", r.what, r.line().Result)
		}
	}
	return rows, nil
}

// wide is a job of n independent tasks, named by name, and, if last is not empty, one more task that depends on all of
// them.
func wide(queue string, n int, name func(int) string, last string) *dag.Job {
	j := &dag.Job{Name: "wide", Queue: queue, Objective: dag.MinimizeCost, Format: dag.Native}
	add := func(name string) {
		j.Tasks = append(j.Tasks, dag.Task{
			Name: name, Run: "x", Nodes: 1, Resources: []dag.Resources{{CPUs: dag.Range{Min: 2}}},
		})
	}
	for i := range n {
		add(name(i))
		if last != "" {
			j.Edges = append(j.Edges, dag.Edge{From: i, To: n})
		}
	}
	if last != "" {
		add(last)
	}
	return j
}

// numbered is the usual naming of tasks.
func numbered(i int) string { return fmt.Sprintf("part-%05d", i) }

// submit submits a job and handles the events that follow, except those of the held types.
func (d *deployment) submit(ctx context.Context, spec *dag.Job, held ...string) (record.Job, error) {
	job, err := d.broker.Users.Submit(ctx, broker.Submission{Spec: spec, Token: spec.Name + spec.Queue})
	if err == nil {
		err = d.settle(ctx, held...)
	}
	if err != nil {
		return job, err
	}
	u := d.unit(ctx)
	s, err := u.Find(record.JobKey(job.ID))
	if err == nil {
		err = decode(s.Body, &job)
	}
	return job, err
}

// run adds the records of a task that runs, as its job's plan says, on an existing machine.
func (d *deployment) run(ctx context.Context, b *batch, job record.Job, plan *record.Plan, index int) error {
	at, choice := d.clock.Now(), plan.Of(index)
	id, node := record.ClusterID(job.ID, index, 1), record.Node{Address: "10.0.0.1", Seen: at, Started: true}
	machines, err := d.cloud.Launch(ctx, cloud.LaunchSpec{Cluster: id, Nodes: 1, Offer: choice.Offer})
	if err != nil {
		return err
	}
	node.Machine = machines[0].ID
	return errors.Join(
		b.put(record.TaskKey(job.ID, index), record.Task{
			Job: job.ID, Index: index, State: record.TaskLaunching, Try: 1, Attempt: 1, Plan: 1, ReadyAt: at,
		}),
		b.put(record.AttemptKey(job.ID, index, 1), attempt(job, choice, index, d)),
		b.put(record.ClusterKey(id), record.Cluster{
			ID: id, Job: job.ID, Task: index, Attempt: 1, Queue: job.Queue, State: record.ClusterUp,
			Offer: choice.Offer, VCPU: choice.VCPU, Nodes: []record.Node{node}, Intended: at,
			Launched: at, Since: at, Up: at, Running: at, Started: true, Seq: 1, Command: "run",
		}))
}

// attempt is the first attempt of a task that was just launched.
func attempt(job record.Job, choice *record.Planned, index int, d *deployment) apitypes.Attempt {
	at := d.clock.Now()
	return apitypes.Attempt{
		Job: job.ID, Task: index, Number: 1, Plan: 1, Offer: choice.Offer, OfferID: choice.ID, Nodes: 1, Admitted: at,
		Launched: at, Up: at, Started: at, VCPU: choice.VCPU,
	}
}
