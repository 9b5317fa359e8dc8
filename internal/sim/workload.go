package sim

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// crowds is the fraction of worlds with many jobs, and crowd their number.
const (
	crowds = 0.04
	crowd  = 14
)

// sharePlaced is the fraction of worlds whose jobs have placement rules.
const sharePlaced = 0.3

// shareSharing is the fraction of worlds in whose jobs tasks share machines.
const shareSharing = 0.3

// populate draws the actions of users: queues, jobs, when they submit them, which ones they cancel.
func (u *users) populate() {
	r := u.w.rand.user
	// Some bugs have an effect only if many tasks want the same quota.
	u.crowded = r.Chance(0.12) || slices.Contains([]breaks.Kind{breaks.NoHold, breaks.Swinging, breaks.Asleep,
		breaks.Overtaking}, u.w.opt.Break)
	u.crowded = u.crowded || u.w.kind == siblings
	u.drawQueues()
	// Not if deadlines must be met, because a rule may make a task wait; and not with other bugs, so that they show as
	// often.
	u.placed = u.w.rand.placed.Chance(sharePlaced) && !u.w.opt.steady && !u.w.onTime && u.w.opt.Break == "" ||
		u.w.opt.Break == breaks.Mingling
	u.sharing = u.drawSharing()
	n := u.w.opt.Jobs
	if n == 0 && timeline.NewRandom(u.w.Seed, "crowds").Chance(crowds) {
		n = crowd // as if they had been requested
	}
	if n == 0 {
		n = 1 + min(r.IntN(4), r.IntN(4))
		if u.crowded {
			n += 3 + r.IntN(4)
		}
		if u.w.rules.Packed {
			n += 4
		}
	}
	expire := u.drawExpiry()
	for i := range n {
		spec := u.drawJob(i)
		u.drawKeep(spec, expire)
		if u.w.opt.managed() {
			drawn.Spark(u.spark, spec, u.w.opt.Break.Managed())
		}
		if u.w.kind == siblings {
			drawn.Siblings(u.w.rand.siblings, spec, i)
		}
		j, after := u.plan(spec), r.Between(0, 90*time.Minute)
		if u.w.kind == siblings {
			after = drawn.SiblingAfter(u.w.rand.siblings, i)
		}
		u.w.After(after, func() {
			if body, err := dag.Marshal(j.file); err == nil && r.Chance(0.25) {
				u.put(j.Spec.Name+".yaml", body, 1+r.IntN(2))
				return
			}
			u.submit(j)
		})
		u.drawRemoval(j, expire)
		if r.Chance(0.12) {
			u.w.After(r.Between(0, 4*time.Hour), func() { u.cancel(j, "changed their mind") })
		}
	}
	u.drawServices()
	u.drawSuspensions()
	if r.Chance(0.2) {
		u.put("bad.yaml", []byte("apiVersion: tradewind/v1\nname: bad\ntasks: {a: {rum: true}}\n"), 2)
	}
}

// drawSharing draws whether tasks share machines: not with other bugs, so that those show as often.
func (u *users) drawSharing() bool {
	drawn := u.w.rand.share.Chance(shareSharing) && !u.w.opt.steady && u.w.opt.Break == ""
	return drawn || u.w.opt.Break.Shares()
}

// share makes tasks of a job share machines, in worlds where they do.
func (u *users) share(j *dag.Job) {
	if u.sharing && !record.IsPlaced(j) && u.w.kind != siblings {
		drawn.Sharing(u.w.rand.share, j, u.w.opt.Break.Shares() && !u.w.opt.Break.Chunks())
		if u.w.cfg.Chunk > 0 {
			drawn.Chunked(u.w.rand.chunk, j, u.w.opt.Break.Chunks())
		}
	}
}

// drawQueues sets quotas of separate queues, or of two queues that share the quota of a third.
func (u *users) drawQueues() {
	r := u.w.rand.user
	var small, cpus record.QueueSettings
	if u.w.kind == siblings {
		r := u.w.rand.siblings
		most := float64(16 * (2 + r.IntN(2)))
		u.setUpQueue("lab", record.QueueSettings{MaxVCPU: most})
		u.setUpQueue("small", record.QueueSettings{Parent: "lab", Weight: 1 + r.IntN(2),
			MaxVCPU: most - timeline.Pick(r, []float64{0, 4, 8})})
		u.setUpQueue("cpus", record.QueueSettings{Parent: "lab", Weight: 1 + r.IntN(2)})
		return
	}
	if r.Chance(0.4) || u.crowded {
		lab := record.QueueSettings{MaxVCPU: float64(8 * (1 + r.IntN(6))), MaxRunning: r.IntN(6)}
		if u.w.opt.Break == breaks.Overtaking {
			lab.MaxVCPU, lab.MaxRunning = 16, 0 // a large task waits until small ones leave room
		}
		u.drawBounds(&lab)
		u.drawMonth("lab", &lab)
		u.setUpQueue("lab", lab)
		small.Parent, cpus.Parent = "lab", "lab"
		small.Weight, cpus.Weight = 1+r.IntN(3), r.IntN(3)
		if r.Chance(0.3) {
			cpus.GuaranteedVCPU = 4
		}
	}
	small.Preempt, cpus.Preempt = r.Chance(0.3), r.Chance(0.3)
	if u.w.opt.Break == breaks.Swinging {
		small.Preempt, cpus.Preempt = true, true
	}
	if r.Chance(0.5) {
		small.MaxRunning = 1 + r.IntN(4)
	}
	if r.Chance(0.5) {
		cpus.MaxVCPU = float64(4 * (1 + r.IntN(12)))
	}
	u.drawBounds(&small)
	u.drawMonth("small", &small)
	u.drawBounds(&cpus)
	u.drawMonth("cpus", &cpus)
	none := record.QueueSettings{}
	if u.unset > 0 || !reflect.DeepEqual(small, none) || !reflect.DeepEqual(cpus, none) {
		u.setUpQueue("small", small)
		u.setUpQueue("cpus", cpus)
	}
}

// drawBounds gives some queues quotas besides vCPUs: of accelerators, memory, and the cost per hour.
func (u *users) drawBounds(s *record.QueueSettings) {
	if u.w.opt.Break == breaks.Swinging {
		return
	}
	if r := u.w.rand.bounds; r.Chance(0.25) || u.w.opt.Break == breaks.Unmeasured {
		drawn.Bounds(r, s)
	}
	if r := u.w.rand.fast; r.Chance(0.15) {
		drawn.BoundsFast(r, s)
	}
}

// drawArrays draws arrays for a job. As placement rules: not if deadlines must be met, and not with other bugs.
func (u *users) drawArrays(j *dag.Job) {
	if b := u.w.opt.Break; b == breaks.Rushing || b == "" && !u.w.opt.steady && !u.w.onTime {
		drawn.Arrays(u.w.rand.array, j, b == breaks.Rushing)
	}
}

// drawJob draws a job.
func (u *users) drawJob(n int) *dag.Job {
	r := u.w.rand.user
	j := &dag.Job{Name: fmt.Sprintf("job%d", n), Objective: dag.MinimizeCost, Infeasible: dag.Fail, Format: dag.Native}
	if n%2 == 0 || u.w.opt.Break == breaks.Impatient {
		j.Infeasible = dag.Retry
	}
	if r.Chance(0.2) {
		j.Objective = dag.MinimizeMakespan
	}
	if r.Chance(0.6) {
		j.Infeasible = dag.Wait
	} else if n%4 == 0 {
		j.Patience = 3 * time.Hour
	}
	if !u.w.onTime || r.Chance(0.2) { // otherwise its deadline may have to be met
		j.Queue = timeline.Pick(r, []string{"", "", "small", "cpus"})
	}
	if r.Chance(0.3) {
		j.Priority = r.IntN(7) - 3
	}
	drawn.Shape(r, j)
	for i := range j.Tasks {
		drawn.Task(r, &j.Tasks[i])
	}
	if u.w.kind == frail {
		drawn.Frail(j)
	}
	u.w.rules.Job(j)
	if u.w.rules.Packed {
		drawn.Packed(u.w.rules.Packs, j)
		return j
	}
	drawn.Gang(u.w.rand.gang, j, u.w.opt.Break.Gangs(), u.w.opt.Break == breaks.Headless)
	drawn.Joining(u.w.rand.join, j, u.w.opt.Break == breaks.Loners)
	drawn.Roles(u.w.rand.role, j)
	if u.w.opt.Break == "" {
		drawn.Accelerated(u.w.rand.fast, j)
	}
	if r := u.w.rand.placed; u.placed && r.Chance(0.6) {
		drawn.Placement(r, j)
	}
	u.drawArrays(j)
	if len(j.Arrays) == 0 {
		u.share(j)
	}
	if r := u.w.rand.kept; r.Chance(0.2) || u.w.opt.Break == breaks.Fleeting {
		j.KeepOnFailure = r.Between(time.Minute, 3*time.Hour).Round(time.Second)
	}
	if u.crowded { // many want the same, and nothing else delays them
		j.Queue, j.Priority = timeline.Pick(r, []string{"small", "cpus", "cpus"}), 0
		return j
	}
	drawn.Limits(r, j, u.w.onTime)
	return j
}
