package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// walkedJobs is a number of running jobs for which reconcile needs more than 16 invocations. Lambda drops the next
// invocation of a chain of that length, unless the chain was broken.
const walkedJobs = 8_200

// walked makes reconcile check many running jobs, and waits until it has checked the last one.
func (s *Story) walked(ctx context.Context) (string, error) {
	w := s.World
	if w.Chaos {
		return "left out: killed invocations would be repeated", nil
	}
	reconcile := w.Functions[w.Stack.Name+"-"+events.FnReconcile]
	resume := w.HoldSchedules()
	defer resume()
	if err := s.walkJobs(ctx, store.Put); err != nil {
		return "", err
	}
	before, began := reconcile.Usage(), time.Now()
	if err := w.Invoke(ctx, events.FnReconcile, events.BrokerReconcile{}); err != nil {
		return "", err
	}
	last := record.ActiveKey(walkedJob(walkedJobs - 1))
	err := until(ctx, func() error {
		found, err := s.store.Get(ctx, last)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("the last job was not checked after %d invocations, %d were dropped",
				reconcile.Usage().Invocations-before.Invocations, reconcile.Usage().Dropped)
		}
		return err
	})
	took := time.Since(began)
	after := reconcile.Usage()
	return fmt.Sprintf("%d jobs in %d invocations and %.0f s; at most %d of a function in one chain of requests",
			walkedJobs, after.Invocations-before.Invocations, took.Seconds(), after.Chain),
		errors.Join(err, s.walkJobs(context.WithoutCancel(ctx), store.Delete))
}

func walkedJob(n int) string { return fmt.Sprintf("walk-%05d", n) }

// walkJobs writes the records of the jobs, or deletes their entries in the index of unfinished jobs. All hold a
// machine. The last one has finished, so reconcile deletes its entry.
func (s *Story) walkJobs(ctx context.Context, op store.Op) error {
	var writes []store.Write
	write := func(key store.Key, v any) error {
		body, err := json.Marshal(v)
		writes = append(writes, store.Write{Op: op, Key: key, Expect: store.Any, Body: body})
		return err
	}
	for i := range walkedJobs {
		job := record.Job{ID: walkedJob(i), Name: "walk", State: apitypes.JobRunning, Submitted: time.Now()}
		if i == walkedJobs-1 {
			job.State = apitypes.JobSucceeded
		}
		err := write(record.ActiveKey(job.ID), record.JobIndex{ID: job.ID, Submitted: job.Submitted})
		if op == store.Put {
			err = errors.Join(err, write(record.JobKey(job.ID), job),
				write(record.LedgerKey(job.ID), record.Ledger{Outstanding: 1}))
		}
		if err != nil {
			return err
		}
	}
	var group errgroup.Group
	group.SetLimit(4)
	for part := range slices.Chunk(writes, 99) {
		group.Go(func() error { return s.store.Commit(ctx, store.Tx{Writes: part}) })
	}
	return group.Wait()
}

// unbroken checks that Lambda dropped no invocation.
func (s *Story) unbroken(context.Context) (string, error) {
	longest := 0
	for name, u := range s.World.Usage() {
		if longest = max(longest, u.Chain); u.Dropped > 0 {
			return "", fmt.Errorf("%d recursive invocations of %s were dropped", u.Dropped, name)
		}
	}
	return fmt.Sprintf("at most %d invocations of a function in one chain of requests; Lambda allows 16", longest), nil
}
