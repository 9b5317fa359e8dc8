package sim

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
)

// A worker is a bought machine that becomes a machine of its job's pool. The agents of its tasks end with it, and it
// never returns.

// asWorker returns the machine of a pool that a run is, before its first call.
func (r *run) asWorker(on *wire.Worker) *poolMachine {
	m := &poolMachine{w: r.a.w, pool: on.Pool, id: on.Machine, worker: r,
		claims: wire.PoolClaims{Pool: on.Pool, Machine: on.Machine, Joined: r.a.w.Now}}
	m.report.Type, m.report.Capacity = on.Type, on.Capacity
	if r.a.w.opt.Break == breaks.Boasting {
		m.report.Capacity.CPUs, m.report.Capacity.MemoryGiB = 2*on.Capacity.CPUs, 2*on.Capacity.MemoryGiB
	}
	return m
}

// joinPool makes a worker join its pool.
func (r *run) joinPool() {
	w := r.a.w
	w.Count("worker joins")
	w.Say(r.worker.pool, "is joined", r.worker.id+": "+r.a.m.ID)
	r.worker.up = true
	w.check.WorkerJoins(&r.a.m.Machine, r.worker.pool, r.worker.id)
	r.worker.sync(r.worker.serial)
}

// saveShare is the part of a notice that the tasks of a worker have to save their work.
const saveShare = 0.9

// leaveWithin is the time that the tasks have if the broker states none.
const leaveWithin = 15 * time.Minute

// saveTasks makes the tasks of a worker save their work and leave it, until a time.
func (r *run) saveTasks(until time.Time) {
	if r.saving {
		return
	}
	r.saving = true
	left := time.Duration(float64(until.Sub(r.a.w.Now)) * saveShare)
	if left <= 0 {
		left = leaveWithin
	}
	if !r.worker.up { // it has not joined yet
		r.stopOnCommand()
		return
	}
	r.worker.leaveSoon()
	r.later(left, func() {
		r.a.w.Count("worker leaves before its tasks have saved")
		r.stopOnCommand()
	})
}

// exited is called when the agent of a task has ended by itself. The agent's worker then calls at once for another
// task.
func (m *machine) exited() {
	if m.on == nil || m.on.agent.run == nil || m.on.agent.run.worker == nil {
		return
	}
	on := m.on.agent.run.worker
	on.serial++ // the answers of earlier calls do not count
	on.sync(on.serial)
}

// leaveSoon makes a worker report at once that it leaves.
func (m *poolMachine) leaveSoon() {
	m.report.Leaving = true
	m.serial++ // the answers of earlier calls do not count
	m.sync(m.serial)
}

// left is called when a worker has left its pool.
func (m *poolMachine) left() {
	m.endAll("the worker leaves")
	r := m.worker
	if r.over {
		return
	}
	r.over = true
	report := wire.Report{Event: wire.Succeeded, Progress: 1, Empty: true}
	if r.saving {
		report = wire.Report{Event: wire.Stopped}
	}
	m.w.Count("worker leaves")
	r.report(report, nil)
}

// removed is called when the broker answers a worker that it is not in its pool.
func (m *poolMachine) removed() {
	m.endAll("the worker was removed")
	r := m.worker
	if r.over {
		return
	}
	m.w.Count("worker removed")
	r.over = true
	report := wire.Report{Event: wire.Failed, ExitCode: 1, Phase: wire.PhaseRun, Message: "removed from its pool"}
	if r.saving {
		report = wire.Report{Event: wire.Stopped}
	}
	r.report(report, nil)
}

// endAll ends a worker and all agents on it for ever.
func (m *poolMachine) endAll(reason string) {
	m.up = false
	m.serial++
	for _, run := range m.runs {
		run.end(reason)
	}
	m.runs = nil
}
