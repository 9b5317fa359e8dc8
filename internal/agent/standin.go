package agent

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// runStandIn replaces a task that has a recorded run time but no command. It waits for that time, minus the progress of
// earlier attempts. It needs no directory and no process, and its checkpoints contain only its progress.
func (t *attempt) runStandIn() wire.Report {
	t.mu.Lock()
	t.began = time.Now()
	t.mu.Unlock()
	t.reports.add(wire.Report{Event: wire.Started, Progress: t.progress()}, nil)
	left := time.Duration(float64(t.work.StandIn) * (1 - t.work.Progress))
	end := time.NewTimer(max(left, 0))
	defer end.Stop()
	next, every := 0, (<-chan time.Time)(nil)
	if c := t.work.Checkpoint; c != nil {
		next = c.Next
		if c.Every > 0 {
			ticker := time.NewTicker(c.Every)
			defer ticker.Stop()
			every = ticker.C
		}
	}
	for {
		select {
		case <-end.C:
			return t.standInDone()
		case <-every:
			next = t.checkpointStandIn(next)
		case <-t.unlessOrdered.Done():
			if told, _ := t.ordered(); told == orderSave {
				t.checkpointStandIn(next)
			}
			return wire.Report{Event: wire.Stopped, Progress: t.progress()}
		}
	}
}

func (t *attempt) checkpointStandIn(seq int) (next int) {
	if t.work.Checkpoint == nil {
		return seq
	}
	t.reports.add(wire.Report{Event: wire.Checkpointed, Seq: seq, Progress: t.progress()}, nil)
	return seq + 1
}

// standInDone uploads empty outputs if there are several nodes, so that a child finds complete outputs, as of any
// other task.
func (t *attempt) standInDone() wire.Report {
	if len(t.work.Nodes) <= 1 {
		return wire.Report{Event: wire.Succeeded, Progress: 1, Empty: true}
	}
	if err := t.keep(t.unlessStopped, "", stage.Scan{}); err != nil {
		return t.failed(wire.PhaseOutputs, err)
	}
	return wire.Report{Event: wire.Succeeded, Progress: 1}
}

// progress returns the share of a stand-in that is done, from 0 to 1; 0 for other tasks.
func (t *attempt) progress() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		return 0
	}
	if t.work.StandIn <= 0 {
		return 1
	}
	return min(t.work.Progress+float64(time.Since(t.began))/float64(t.work.StandIn), 1)
}
