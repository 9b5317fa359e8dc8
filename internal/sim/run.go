package sim

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
)

// run is one attempt on one machine, from staging to the result.
type run struct {
	a       *agent
	work    *wire.Assignment
	total   time.Duration // of the whole task on this machine
	resumed float64       // fraction of the task done before
	began   time.Time     // zero until the task's process runs
	next    int           // sequence number of the next checkpoint
	over    bool          // nothing more runs
	saving  bool
	kept    bool // the task has failed, and its files are kept
	queue   []outgoing
	sending bool
	count   int
	chunk   chunk
	worker  *poolMachine // the machine in the pool of its job; nil if it runs a task
}

// outgoing is a report to send. accepted is called when the broker has received it.
type outgoing struct {
	report   wire.Report
	accepted func()
}

func newRun(a *agent, work *wire.Assignment) *run {
	if work.Worker != nil {
		r := &run{a: a, work: work, total: unending}
		r.worker = r.asWorker(work.Worker)
		return r
	}
	r := &run{a: a, work: work, total: a.w.users.duration(work, a.m.Offer), resumed: work.Progress}
	if c := work.Checkpoint; c != nil {
		r.next = c.Next
		// A broker that stalls may answer after the attempt has finished. The next attempt may then already have saved
		// more and deleted this checkpoint.
		late := a.w.check.Finished(&a.m.Machine)
		if c.Restore != "" {
			s, found := a.w.bucket.load(work.Prefix, check.At(work.Store, c.Restore))
			if !found && !late {
				a.w.Violatef(check.InvCheckpoint, "%s should resume from %s, which does not exist", work.Attempt,
					c.Restore)
			}
			r.resumed = s.progress
		}
		// Rank 0 saves the checkpoints. While another rank of the same attempt still starts, rank 0 may already have
		// saved a newer one.
		if best := a.w.bucket.accepted[work.Prefix]; a.m.Rank == 0 && !late && r.resumed < best-check.Rounding {
			a.w.Violatef(check.InvCheckpoint, "%s resumes with %.3f of its work done, but %.3f had been saved",
				work.Attempt, r.resumed, best)
		}
	}
	return r
}

// unending is the duration of a run that does not end by itself.
const unending = 1000 * time.Hour

// alive reports whether the run still matters.
func (r *run) alive() bool { return r.a.m.Speaks && !r.over }

func (r *run) later(d time.Duration, f func()) {
	r.a.w.After(d, func() {
		if r.alive() {
			f()
		}
	})
}

// stage fetches inputs, then starts the task.
func (r *run) stage() {
	r.later(spread(r.a.w.rand.machine, r.a.w.pace.stage), r.staged)
	r.later(heartbeat, r.beat)
}

// staged is called when inputs are staged. In worlds that move data, objects in the store are then read as well.
func (r *run) staged() {
	w := r.a.w
	if !w.moves {
		r.start()
		return
	}
	if w.rand.grant.Chance(w.faults.Coveting) {
		r.requestForeignGrant()
	}
	var uris []string
	for _, parent := range slices.Sorted(maps.Keys(r.work.Parents)) {
		uris = append(uris, r.object(r.work.Parents[parent]+"0", "data"))
	}
	if c := r.work.Checkpoint; c != nil && c.Restore != "" {
		uris = append(uris, r.object(c.Restore, "data"))
	}
	r.fetch(uris, r.start)
}

// keeping stores an object, in worlds that move data.
func (r *run) keeping(prefix string, done func()) {
	if !r.a.w.moves {
		done()
		return
	}
	r.keep(r.object(prefix, "data"), func() {
		if r.alive() {
			done()
		}
	})
}

func (r *run) start() {
	w := r.a.w
	r.began = w.Now
	r.report(wire.Report{Event: wire.Started, Progress: r.resumed}, nil)
	if r.worker != nil {
		r.joinPool()
		return
	}
	if r.work.Service != nil {
		r.serve()
		return
	}
	left := time.Duration(float64(r.total) * (1 - r.resumed))
	if w.users.fails(r.work) {
		w.Count("task fails")
		r.later(w.rand.task.Between(0, left), r.fail)
		return
	}
	if w.users.deadly(r.work) {
		r.later(w.rand.deadly.Between(0, min(left, time.Hour)), func() {
			w.Count("task kills its agent")
			w.Say(r.a.m.Cluster, "agent dies", r.a.m.ID+": killed by its task")
			r.a.stop()
		})
	}
	if !w.users.serves(r.work) {
		r.later(left, r.finish)
	}
	if c := r.work.Checkpoint; c != nil && c.Every > 0 && r.a.m.Rank == 0 {
		r.later(c.Every, r.checkpoint)
	}
}

// progress returns the fraction of the task's work that is done.
func (r *run) progress() float64 {
	if r.began.IsZero() || r.worker != nil {
		return r.resumed
	}
	return min(1, r.resumed+r.a.w.Now.Sub(r.began).Seconds()/max(r.total.Seconds(), 1))
}

func (r *run) beat() {
	if len(r.queue) == 0 { // any waiting report shows as much
		r.report(wire.Report{Event: wire.Alive, Progress: r.progress()}, nil)
	}
	r.later(heartbeat, r.beat)
}

// save stores a checkpoint, which takes time, and reports it.
func (r *run) save(then func()) {
	if r.work.Checkpoint == nil || r.a.m.Rank != 0 || r.began.IsZero() {
		then()
		return
	}
	s := saved{seq: r.next, progress: r.progress()}
	r.next++
	prefix := wire.CheckpointPrefix(r.work.Prefix, r.work.Attempt, s.seq)
	s.uri = check.At(r.work.Store, prefix)
	kept := func() {
		r.a.w.bucket.save(r.work.Prefix, s)
		r.report(wire.Report{Event: wire.Checkpointed, Seq: s.seq, Prefix: prefix, Progress: s.progress}, func() {
			begun := ""
			if len(r.work.Nodes) > 1 {
				begun = check.At(r.work.Store, r.work.Checkpoint.Restore)
			}
			r.a.w.bucket.accept(r.work.Prefix, s, r.a.w.opt.Break.Keep(keepCheckpoints), begun)
		})
		then()
	}
	r.later(r.a.w.rand.machine.Between(r.a.w.pace.save[0], r.a.w.pace.save[1]), func() { r.keeping(prefix, kept) })
}

func (r *run) checkpoint() {
	if r.kept {
		return
	}
	r.save(func() {})
	r.later(r.work.Checkpoint.Every, r.checkpoint)
}

// saveAndStop reacts to a notice: it saves the work, and stops before the machine is preempted.
func (r *run) saveAndStop(until time.Time) {
	if r.worker != nil {
		if !r.over {
			r.saveTasks(until)
		}
		return
	}
	if r.kept { // there is nothing to save
		r.a.w.check.Leaves(&r.a.m.Machine)
		r.stopOnCommand()
	}
	if r.over || r.saving {
		return
	}
	r.saving, r.a.m.Ready = true, false
	r.save(r.stopOnCommand)
}

func (r *run) stopOnCommand() {
	if r.over {
		return
	}
	if r.chunk.began {
		r.succeed() // the members that have not ended run again
		return
	}
	r.over = true
	if r.worker != nil {
		r.worker.endAll("its worker stops")
	}
	r.report(wire.Report{Event: wire.Stopped, Progress: r.progress()}, nil)
}

func (r *run) fail() {
	r.a.m.Ready = false
	r.a.w.users.failed(r.work)
	failed := wire.Report{Event: wire.Failed, ExitCode: 1, Phase: wire.PhaseRun, Message: "simulated failure",
		Keep: r.work.KeepOnFailure}
	if r.kept = failed.Keep > 0 && !r.saving; !r.kept {
		failed.Keep = 0
		r.over = true
		r.report(failed, nil)
		return
	}
	r.report(failed, nil)
	r.a.w.check.Lingers(&r.a.m.Machine)
	r.later(failed.Keep, func() {
		r.a.w.Count("kept until the end")
		r.stopOnCommand()
	})
}

// finish stores the outputs and reports success.
func (r *run) finish() {
	if r.saving {
		return
	}
	prefix := wire.OutputPrefix(r.work.Prefix, r.work.Attempt)
	r.keeping(prefix+strconv.Itoa(r.a.m.Rank), r.finished)
}

// finished is called when the outputs are stored.
func (r *run) finished() {
	if r.saving {
		return
	}
	w := r.a.w
	w.check.OutputsStored(check.At(r.work.Store, wire.OutputPrefix(r.work.Prefix, r.work.Attempt)))
	if len(r.work.Chunk) == 0 {
		r.succeed()
		return
	}
	r.chunk.began, r.chunk.ran = true, w.Now.Sub(r.began)
	r.nextMember()
}

// report queues a report behind those that wait.
func (r *run) report(report wire.Report, accepted func()) {
	r.count++
	report.Attempt, report.ID = r.work.Attempt, reportID(r.work.Attempt, r.a.m.Rank, r.count)
	r.queue = append(r.queue, outgoing{report, accepted})
	r.send()
}

func (r *run) send() {
	if r.sending || len(r.queue) == 0 {
		return
	}
	r.sending = true
	o := r.queue[0]
	r.a.call("report "+string(o.report.Event), func(ctx context.Context, b *broker.Broker) error {
		return b.Agents.Report(ctx, r.a.claims, o.report)
	}, func() {
		r.sending, r.queue = false, r.queue[1:]
		if o.accepted != nil {
			o.accepted()
		}
		r.send()
	})
}
