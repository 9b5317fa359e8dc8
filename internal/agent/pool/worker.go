package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/agent"
)

// RunWorker runs a worker of a job: a machine that got its token from the broker and does not join again. It returns
// nil if it left, because the broker does not need it or ctx ended.
func RunWorker(ctx context.Context, w agent.WorkerRun) error {
	m, err := Open(Config{
		Endpoint: w.Endpoint, Pool: w.Pool, Name: w.Machine, Type: w.Type, Capacity: w.Capacity, Dir: w.Dir,
		Environ: w.Environ, Relay: w.Relay, HTTPClient: w.HTTPClient, LeaveWithin: max(w.LeaveWithin(), 0),
		OnEvent: func(e Event) {
			if text := describe(e); text != "" {
				w.Note(text)
			}
		},
	})
	if err != nil {
		return err
	}
	m.memory.Token, m.leaveWithin = w.Token, w.LeaveWithin
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-w.Stop:
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
			defer cancel()
			if err := m.Kill(stop); err != nil {
				w.Note(err.Error())
			}
		case <-done:
		}
	}()
	err = m.Run(ctx)
	if errors.Is(err, ErrRemoved) && ctx.Err() != nil {
		err = nil // it was released meanwhile
	}
	return errors.Join(err, m.Close())
}

// describe is an event for the worker's log, or "".
func describe(e Event) string {
	switch e.Kind {
	case AgentStarted:
		return fmt.Sprintf("%s starts, with %g vCPU and %g GiB", e.Cluster, e.Hold.CPUs, e.Hold.MemoryGiB)
	case AgentEnded:
		return e.Cluster + " has ended"
	case AgentFailed, Unreachable:
		return fmt.Sprintf("%s %s: %v", e.Cluster, e.Kind, e.Err)
	case Leaving:
		return fmt.Sprintf("the worker leaves; %d tasks still run", e.Running)
	case Joined, Draining, Resumed, Reached:
	}
	return ""
}
