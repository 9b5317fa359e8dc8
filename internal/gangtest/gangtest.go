// Package gangtest checks at every commit that a gang of a thousand machines is either admitted as a whole or not at
// all.
package gangtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Machines is the number of machines of File's gang, in two roles.
const Machines = 1000

// File is a job with one gang. It has finished when its chief has.
const File = `apiVersion: tradewind/v1
name: thousand
tasks:
  all:
    resources: {cpus: 2}
    time: 1h
    gang:
      roles:
        chief: {run: lead, on: {taskCompleted: complete}}
        worker: {run: work, replicas: 999}
`

// WatchedStore is a store that checks after each commit, and before the next one, how much of a gang exists.
type WatchedStore struct {
	*Observations
	store.Store
}

// Observations are the results of all watches of one deployment.
type Observations struct {
	mu      sync.Mutex
	commits int
	states  map[string]int // how often each state of the gang was seen
	begun   bool
	wrong   []string
}

// Commit implements store.Store.
func (w WatchedStore) Commit(ctx context.Context, tx store.Tx) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Store.Commit(ctx, tx); err != nil {
		return err
	}
	for _, x := range tx.Writes {
		if job, ok := strings.CutPrefix(x.Key.Partition, "job#"); ok {
			return w.look(ctx, job)
		}
	}
	return nil
}

func (w WatchedStore) look(ctx context.Context, job string) error {
	var keys []store.Key
	for task := range 2 {
		keys = append(keys, store.Key(record.TaskKey(job, task)), store.Key(record.AttemptKey(job, task, 1)),
			store.Key(record.ClusterKey(record.ClusterID(job, task, 1))))
	}
	found, err := w.Get(ctx, keys...)
	if err != nil {
		return err
	}
	tasks, machines, begun := 0, 0, 0
	for _, r := range found {
		switch kind, _, _ := strings.Cut(r.Key.Sort, "#"); kind {
		case "task":
			if t := decoded[record.Task](r); t.Attempt > 0 {
				tasks++
			}
		case "attempt":
			machines += decoded[apitypes.Attempt](r).Nodes
		case "cluster":
			if cl := decoded[record.Cluster](r); cl.Command != "" { // empty before it runs and after it has finished
				begun += len(cl.Nodes)
			}
		}
	}
	w.commits++
	if w.states == nil {
		w.states = map[string]int{}
	}
	state := fmt.Sprintf("%d roles with %d machines admitted, %d begun", tasks, machines, begun)
	w.states[state]++
	if tasks != 0 && tasks != 2 || machines != 0 && machines != Machines ||
		begun != 0 && begun != Machines && !w.begun {
		w.wrong = append(w.wrong, state)
	}
	w.begun = w.begun || begun == Machines // finished machines leave one by one
	return nil
}

func decoded[T any](r store.Record) (v T) {
	if json.Unmarshal(r.Body, &v) != nil {
		panic("not a record")
	}
	return v
}

// Check fails the test if the gang was ever seen in part, or was never seen running.
func (s *Observations) Check(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	tb.Logf("%d commits: %v", s.commits, s.states)
	if len(s.wrong) > 0 {
		tb.Errorf("seen in part: %v", s.wrong)
	}
	if s.states[fmt.Sprintf("2 roles with %d machines admitted, %[1]d begun", Machines)] == 0 {
		tb.Error("the gang was never seen running")
	}
}
