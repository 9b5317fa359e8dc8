package apitest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// largeTook is the time since a Large job was submitted. Its tasks have started one after another in that time.
const largeTook = 2 * time.Hour

// Large submits a job of n tasks. The last task waits for all others. Of these, the given number is running, and the
// rest have succeeded. The records are written directly, because it would take too long to run the tasks.
func (w *World) Large(n, running int) (job string) {
	w.t.Helper()
	job = w.Submit(Wide("mosaic", n-2))
	begin := w.Clock.Now()
	w.Clock.Advance(largeTook)
	phases := make([]record.Phase, n)
	for i := range n {
		if phases[i] = record.PhaseWaiting; i == n-1 {
			break
		}
		o := cpuOffers()[i%2]
		at := begin.Add(time.Duration(i) * (largeTook - time.Minute) / time.Duration(n))
		id := record.ClusterID(job, i, 1)
		task := record.Task{Job: job, Index: i, State: record.TaskSucceeded, Try: 1, Attempt: 1, Plan: 1, ReadyAt: at,
			StartedAt: at, EndedAt: at.Add(time.Minute)}
		attempt := apitypes.Attempt{
			Job: job, Task: i, Number: 1, Plan: 1, Offer: o.Offer, OfferID: o.id(), Nodes: 1, Admitted: at,
			Launched: at, Up: at, Started: at,
			Ended: at.Add(time.Minute), Outcome: apitypes.OutcomeSucceeded, VCPU: 8, ReservedUSD: 0.05, USD: 0.0021,
		}
		if phases[i] = record.PhaseSucceeded; i >= n-1-running {
			phases[i], task.State, task.EndedAt = record.PhaseReady, record.TaskLaunching, time.Time{}
			attempt.Ended, attempt.Outcome, attempt.USD = time.Time{}, "", 0
			w.put(job, "cluster#"+id, record.Cluster{
				ID: id, Job: job, Task: i, Attempt: 1, State: record.ClusterUp, Offer: o.Offer, VCPU: 8,
				Nodes: []record.Node{{Machine: "m"}}, Launched: at, Since: at, Up: at, Running: at, Started: true,
			})
		}
		w.put(job, fmt.Sprintf("task#%06d", i), task)
		w.put(job, fmt.Sprintf("attempt#%06d#%04d", i, 1), attempt)
	}
	w.put(job, "progress", record.Progress{Phases: phases, Succeeded: n - 1 - running})
	w.put(job, "ledger", record.Ledger{SpentUSD: 42, Outstanding: running})
	return job
}

// Finish marks a task of a Large job as succeeded. Its machines still exist.
func (w *World) Finish(job string, index int) {
	at := w.Clock.Now()
	w.put(job, fmt.Sprintf("task#%06d", index), record.Task{
		Job: job, Index: index, State: record.TaskSucceeded, Try: 1, Attempt: 1, Plan: 1, ReadyAt: at, StartedAt: at,
		EndedAt: at,
	})
}

// put writes a record of a job.
func (w *World) put(job, sort string, value any) {
	w.t.Helper()
	body, err := json.Marshal(value)
	if err == nil {
		err = w.Store.Commit(w.t.Context(), store.Tx{Writes: []store.Write{{
			Key: store.Key{Partition: "job#" + job, Sort: sort}, Expect: store.Any, Body: body,
		}}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
