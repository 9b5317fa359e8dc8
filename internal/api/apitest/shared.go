package apitest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// sharedTook is the time since a Shared job was submitted.
const sharedTook = 24 * time.Minute

// Shared submits a job of five tasks that share two machines. The first machine boots for two minutes, runs three
// tasks until minute 18, and ends at minute 20. The second machine starts at minute 12 and runs one task. The last
// task waits. The records are written directly, because the planner of a World shares no machines. No task of the
// job's queue is admitted.
func (w *World) Shared() (job string) {
	w.t.Helper()
	if err := w.Broker.Users.SetQueue(w.t.Context(), "night", record.QueueSettings{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Broker.Users.SuspendQueue(w.t.Context(), "night", apitypes.Suspension{}, "shared"); err != nil {
		w.t.Fatal(err)
	}
	w.Drain()
	spec := &dag.Job{Name: "thumbnails", Objective: dag.MinimizeCost, Queue: "night", Format: dag.Native}
	for i := range 5 {
		spec.Tasks = append(spec.Tasks, dag.Task{Name: fmt.Sprint("shrink-", i), Run: "./shrink.sh", Nodes: 1,
			Share: dag.ShareJob, Resources: []dag.Resources{{CPUs: dag.Range{Min: 4}, Memory: dag.Range{Min: 8}}},
			Time: dag.TimeEstimate{Default: 9 * time.Minute}})
	}
	job = w.Submit(spec)
	begin := w.Clock.Now()
	w.Clock.Advance(sharedTook)
	at := func(minutes float64) time.Time {
		if minutes < 0 {
			return time.Time{}
		}
		return begin.Add(time.Duration(minutes * float64(time.Minute)))
	}
	phases := []record.Phase{record.PhaseSucceeded, record.PhaseSucceeded, record.PhaseSucceeded, record.PhaseReady,
		record.PhaseReady}
	for i, m := range [][3]float64{{0, 2, 20}, {12, 14, -1}} { // bought, up, gone
		o := cpuOffers()[i]
		a := apitypes.Attempt{Job: job, Task: 5 + i, Number: 1, Plan: 1, Offer: o.Offer, OfferID: o.id(), Nodes: 1,
			VCPU: 8, Admitted: at(m[0]), Launched: at(m[0]), Up: at(m[1]), Started: at(m[1]), Ended: at(m[2])}
		if m[2] > 0 {
			a.Outcome, a.USD = apitypes.OutcomeSucceeded, o.USDPerHour*20/60
		} else {
			id := record.ClusterID(job, 5+i, 1)
			w.put(job, "cluster#"+id, record.Cluster{ID: id, Job: job, Task: 5 + i, Attempt: 1, State: record.ClusterUp,
				Offer: o.Offer, VCPU: 8, Nodes: []record.Node{{Machine: "m"}}, Launched: at(m[0]), Since: at(m[0]),
				Up: at(m[1]), Running: at(m[1]), Started: true})
		}
		w.put(job, fmt.Sprintf("attempt#%06d#%04d", 5+i, 1), a)
	}
	for i, r := range [][3]float64{{5, 2, 11}, {5, 2, 12}, {5, 11, 18}, {6, 14, -1}} { // worker, from, to
		host := record.WorkerName(int(r[0]), 1)
		task := record.Task{Job: job, Index: i, State: record.TaskSucceeded, Try: 1, Attempt: 1, Plan: 1,
			ReadyAt: begin, StartedAt: at(r[1]), EndedAt: at(r[2])}
		a := apitypes.Attempt{Job: job, Task: i, Number: 1, Plan: 1, Nodes: 1, VCPU: 4, Hosts: []string{host},
			Offer:   apitypes.Offer{Cloud: apitypes.PoolCloud, Region: apitypes.JobPool + job},
			OfferID: apitypes.PoolCloud + "/" + apitypes.JobPool + job + "/" + host,
			Outcome: apitypes.OutcomeSucceeded, Admitted: at(r[1]), Launched: at(r[1]), Up: at(r[1]), Started: at(r[1]),
			Ended: at(r[2])}
		if r[2] < 0 {
			task.State, a.Outcome = record.TaskRunning, ""
		}
		w.put(job, fmt.Sprintf("task#%06d", i), task)
		w.put(job, fmt.Sprintf("attempt#%06d#%04d", i, 1), a)
	}
	w.put(job, "progress", record.Progress{Phases: phases, Succeeded: 3})
	w.put(job, "ledger", record.Ledger{SpentUSD: cpuOffers()[0].USDPerHour * 20 / 60, Outstanding: 2, Shared: 1})
	return job
}

// Chunk turns the attempt of a task into a chunk that also runs the tasks after it.
func (w *World) Chunk(attempt string, others int) {
	w.t.Helper()
	key := record.ClusterKey(attempt)
	found, err := w.Store.Get(w.t.Context(), key)
	if err != nil || len(found) != 1 {
		w.t.Fatalf("cluster %s: %d records, %v", attempt, len(found), err)
	}
	var cl record.Cluster
	if err := json.Unmarshal(found[0].Body, &cl); err != nil {
		w.t.Fatal(err)
	}
	cl.Chunk = others
	w.put(cl.Job, key.Sort, cl)
}
