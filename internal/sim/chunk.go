package sim

import (
	"cmp"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
)

// chunk is the second part of a run, after its own task: the other members of its chunk, one after the other.
type chunk struct {
	began bool // the run's own task has succeeded
	ran   time.Duration
	ends  []wire.ChunkEnd
	at    int              // the member that runs
	work  *wire.Assignment // of that member
	since time.Time
}

// nextMember runs the next member of a chunk. After the last member, or when an order has come, it reports the result
// of the chunk.
func (r *run) nextMember() {
	w, c := r.a.w, &r.chunk
	if c.at == len(r.work.Chunk) {
		r.succeed()
		return
	}
	c.work, c.since = r.work.Member(r.work.Chunk[c.at]), w.Now
	r.a.m.Member = c.work.Attempt
	took := w.users.duration(c.work, r.a.m.Offer)
	if w.users.fails(c.work) {
		r.later(w.rand.task.Between(0, took), func() {
			w.users.failed(c.work)
			r.memberEnded(wire.ChunkEnd{Failed: true, ExitCode: 1, Phase: wire.PhaseRun, Message: "simulated failure"})
		})
		return
	}
	if w.users.deadly(c.work) {
		r.later(w.rand.deadly.Between(0, took), func() {
			w.Count("member of a chunk kills its agent")
			w.Say(r.a.m.Cluster, "agent dies", r.a.m.ID+": killed by "+c.work.Task)
			r.a.stop()
		})
		return
	}
	prefix := wire.OutputPrefix(c.work.Prefix, c.work.Attempt)
	r.later(took, func() {
		r.keeping(prefix+strconv.Itoa(r.a.m.Rank), func() {
			w.check.OutputsStored(check.At(r.work.Store, prefix))
			r.memberEnded(wire.ChunkEnd{})
		})
	})
}

func (r *run) memberEnded(e wire.ChunkEnd) {
	c := &r.chunk
	r.a.w.Count("members that ended in the chunk of another")
	e.Attempt, e.Ran = c.work.Attempt, r.a.w.Now.Sub(c.since)
	c.ends = append(c.ends, e)
	c.at++
	c.work, r.a.m.Member = nil, ""
	r.nextMember()
}

// succeed reports the success of a task, and the ends of the other members of its chunk.
func (r *run) succeed() {
	w := r.a.w
	r.over = true
	report := wire.Report{Event: wire.Succeeded, Progress: 1, Ran: r.chunk.ran, Chunk: r.chunk.ends}
	if missing := r.work.Chunk[len(r.chunk.ends):]; len(missing) > 0 {
		w.Count("chunks that ended early")
		for _, m := range missing {
			if w.opt.Break == breaks.Presuming {
				report.Chunk = append(report.Chunk, wire.ChunkEnd{Attempt: m.Attempt})
			}
		}
	}
	r.report(report, nil)
	if w.rand.machine.Chance(w.faults.Twice) {
		w.Count("success reported twice")
		w.After(w.rand.machine.Spread(time.Second, time.Minute), func() { r.report(report, nil) })
	}
}

// claims returns the claims of a call about the data of a run: of the member of its chunk that runs.
func (r *run) claims() wire.Claims {
	c := r.a.claims
	if r.chunk.work != nil {
		c.Member = r.chunk.work.Attempt
	}
	return c
}

// attemptOf is the attempt that a call with claims is for. By the time of its answer, the agent may run another member.
func attemptOf(c wire.Claims) string { return cmp.Or(c.Member, c.Cluster) }
