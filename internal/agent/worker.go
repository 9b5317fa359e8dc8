package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// WorkerRun is the configuration of a worker: a machine of its job's pool.
type WorkerRun struct {
	wire.Worker
	Endpoint string
	// Relay is the URL at which the agents of its tasks call the broker, if it is not the one that the broker names.
	Relay      string
	HTTPClient *http.Client
	Dir        string // for the agents of its tasks and their work
	Environ    []string
	// LeaveWithin is the time that the tasks have to save their work when the worker leaves.
	LeaveWithin func() time.Duration
	// Stop ends the worker without time for its tasks to save.
	Stop <-chan struct{}
	Note func(string) // adds a line to the worker's log
}

// Worker runs a worker: the agents of the tasks that the broker gives it, until ctx ends or the broker does not need it
// any more. All of them have ended when it returns. Package pool implements it.
type Worker func(ctx context.Context, w WorkerRun) error

// saveShare is the part of a notice that the tasks of a worker have; the rest is for their last uploads.
const saveShare = 0.9

// runWorker runs the machine as a worker and returns the result.
func (t *attempt) runWorker(ctx context.Context) wire.Report {
	if err := t.prepare(ctx); err != nil {
		return t.failed(wire.PhaseStage, err)
	}
	if t.cfg.Worker == nil {
		return t.failed(wire.PhaseRun, errors.New("this agent cannot run a worker"))
	}
	relay, environ, end, err := t.relay(ctx)
	if err != nil {
		return t.failed(wire.PhaseRun, err)
	}
	defer end()
	t.reports.add(wire.Report{Event: wire.Started}, nil)
	err = t.cfg.Worker(t.unlessOrdered, WorkerRun{
		Worker: *t.work.Worker, Endpoint: t.cfg.Endpoint, Dir: t.dirs.work, Environ: environ,
		Relay: relay, HTTPClient: t.cfg.HTTPClient,
		LeaveWithin: func() time.Duration {
			if told, until := t.ordered(); told == orderSave {
				return time.Duration(float64(time.Until(until)) * saveShare)
			}
			return 0
		},
		Stop: t.unlessStopped.Done(), Note: t.out.note,
	})
	if told, _ := t.ordered(); err != nil || told != orderNone {
		return t.failed(wire.PhaseRun, err)
	}
	return wire.Report{Event: wire.Succeeded, Progress: 1, Empty: true}
}
