package check

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// jobRecord checks a job against its previous state.
func (c *Checker) jobRecord(s *Job, j record.Job) {
	old := s.Record
	if old.ID == "" {
		if twin := c.byName[j.Name]; twin != nil {
			c.Violatef(InvForward, "job %s was accepted twice, as %s and %s", j.Name, twin.ID, j.ID)
		}
		s.Name, s.user = j.Name, c.wantedBy[j.Name]
		c.byName[j.Name] = s
		if s.user == nil {
			c.Violatef(InvForward, "job %s was accepted, but no user submitted it", j.Name)
			return
		}
		s.graph, s.Promised = s.user.Spec.Graph(), c.promises(s)
	}
	c.checkUpdated(s, old, j)
	c.checkPast(s, old, j)
	s.Record = j
	s.Promised = s.Promised && len(j.Suspensions) == 0
	if !forward(old.State, j.State) || old.State == apitypes.JobEnding && old.Outcome != j.Outcome {
		c.Violatef(InvForward, "job %s goes from %s (%s) to %s (%s)", j.ID, old.State, old.Outcome,
			j.State, j.Outcome)
	}
	if old.State != apitypes.JobEnding && j.State == apitypes.JobEnding {
		s.ending = moment{c.Steps, c.Now}
	}
	if old.State != j.State {
		c.Say(j.ID, "is "+string(j.State), j.Reason)
	}
	if j.Plan.Version < old.Plan.Version {
		c.Violatef(InvForward, "job %s goes back from plan %d to %d", j.ID, old.Plan.Version, j.Plan.Version)
	}
}

// checkDone checks that a job has succeeded with all its tasks, except tasks whose failure their arrays allow.
func (c *Checker) checkDone(s *Job) {
	if s.Record.Outcome != apitypes.JobSucceeded || s.progress.Succeeded == s.Record.Tasks {
		return
	}
	for i, phase := range s.progress.Phases {
		if phase != record.PhaseSucceeded && !s.excused(i) {
			c.Violatef(InvCounts, "job %s succeeds with %d of %d tasks: task %d is %c", s.ID, s.progress.Succeeded,
				s.Record.Tasks, i, phase)
			return
		}
	}
	c.Count("jobs that succeed with failed members")
}

// progressRecord checks a job's progress against its previous state and the tasks.
func (c *Checker) progressRecord(s *Job, p record.Progress) {
	before := s.progress.Phases
	s.progress = p
	if bytes.Count(p.Phases, []byte{record.PhaseSucceeded}) != p.Succeeded || s.user != nil &&
		len(p.Phases) != s.user.Spec.Work() {
		c.Violatef(InvCounts, "job %s counts %d succeeded with progress %s", s.ID, p.Succeeded, p.Phases)
		return
	}
	for i := range p.Phases {
		c.phase(s, i, before)
	}
}

// phase checks the progress of one task.
func (c *Checker) phase(s *Job, i int, before []byte) {
	phase := s.progress.Phases[i]
	was := record.PhaseWaiting
	if i < len(before) {
		was = before[i]
	}
	switch {
	case phase == was:
	case was == record.PhaseSucceeded:
		c.Violatef(InvFinished, "task %d of %s had succeeded and is %c", i, s.ID, phase)
	case phase == record.PhaseSucceeded:
		if s.Tasks[i].State != record.TaskSucceeded {
			c.Violatef(InvCounts, "task %d of %s counts as succeeded but is %s", i, s.ID, s.Tasks[i].State)
		}
	case phase == record.PhaseReady:
		for _, k := range s.graph.In(i) {
			if e := &s.user.Spec.Edges[k]; s.holds(e) {
				c.Violatef(InvCounts, "task %d of %s is ready before its parent %d has succeeded", i, s.ID, e.From)
			}
		}
	case phase == record.PhaseSkipped || phase == record.PhaseExcused:
		if was != record.PhaseWaiting && was != record.PhaseExcused {
			c.Violatef(InvCounts, "task %d of %s was %c and is skipped", i, s.ID, was)
		}
		c.skipped(s, i)
	case phase == record.PhaseWaiting:
		c.Violatef(InvCounts, "task %d of %s was %c and waits again", i, s.ID, was)
	}
}

// forward reports whether a job may change from one state to another.
func forward(from, to apitypes.JobState) bool {
	switch from {
	case "", apitypes.JobPlanning, apitypes.JobWaiting, apitypes.JobRunning:
		return !to.Finished()
	case apitypes.JobEnding:
		return to == apitypes.JobEnding || to.Finished()
	default:
		return from == to
	}
}

// beginsOnWorker reports whether a task was admitted to a worker. The attempt of such a task begins in the same
// transaction.
func (s *Job) beginsOnWorker(old, t record.Task) bool {
	return s.shares(t.Index) && t.State == record.TaskLaunching && t.Attempt == old.Attempt+1
}

// taskRecord checks a task against its previous state.
func (c *Checker) taskRecord(s *Job, t record.Task) {
	old := s.Tasks[t.Index]
	s.Tasks[t.Index] = t
	c.chunkTask(s, old, t)
	worker := s.isWorker(t.Index) // it may be bought again
	if !worker && reopened(old, t) {
		c.Violatef(InvFinished, "task %d of %s had succeeded in attempt %d and is %s in attempt %d", t.Index, s.ID,
			old.Attempt, t.State, t.Attempt)
	}
	if !worker && t.State == record.TaskSucceeded && old.State != t.State {
		s.finished[t.Index] = c.Steps
		s.leads(t.Index, c.Now)
	}
	admitted := t.State == record.TaskAdmitted && old.State != record.TaskAdmitted || s.beginsOnWorker(old, t)
	if old.State == record.TaskQueued && t.State != record.TaskQueued && !admitted &&
		t.State != record.TaskFailed && !s.mayLeave(t) {
		c.Violatef(InvQueued, "task %d of %s is %s without having been admitted", t.Index, s.ID, t.State)
	}
	if old.State != t.State {
		c.Say(s.ID, "task is "+string(t.State), taskName(s, t.Index))
	}
	if admitted {
		c.checkParallel(s, t.Index)
		c.gangs.admit(s, t.Index)
		c.checkJoining(s, t.Index)
	}
	c.waits(s, old, t)
	if t.Attempt < old.Attempt || t.Checkpoint.Seq < old.Checkpoint.Seq {
		c.Violatef(InvAttempt, "task %d of %s goes back from attempt %d, checkpoint %d to %d, %d", t.Index, s.ID,
			old.Attempt, old.Checkpoint.Seq, t.Attempt, t.Checkpoint.Seq)
	}
	if t.Progress < 0 || t.Progress > 1 || math.IsNaN(t.Progress) {
		c.Violatef(InvCounts, "task %d of %s has progress %v", t.Index, s.ID, t.Progress)
	}
}

// reopened reports whether a task that had succeeded changes.
func reopened(old, t record.Task) bool {
	return old.State == record.TaskSucceeded &&
		(t.State != record.TaskSucceeded || t.Attempt != old.Attempt || t.Output != old.Output)
}

// waits counts the tasks that wait for a better price.
func (c *Checker) waits(s *Job, old, t record.Task) {
	if !old.WaitSince.IsZero() || t.WaitSince.IsZero() {
		return
	}
	c.Count("waits for a better price")
	if s.Promised {
		c.Count("waits with a deadline that must be met")
	}
	c.Say(s.ID, "task waits for a better price", taskName(s, t.Index))
}

func taskName(s *Job, i int) string {
	if s.user == nil || i >= len(s.user.Spec.Tasks) {
		return ""
	}
	return s.user.Spec.Tasks[i].Name
}

// competes reports whether an attempt takes capacity that another task of its queue could have used. An attempt on a
// worker of its job does not. If the deployment has a limit, the other tasks wait for that limit. Then an attempt on
// a machine of a pool does not compete with them, and neither does a replica of a service, which need not wait behind
// them.
func (c *Checker) competes(s *Job, a apitypes.Attempt) bool {
	return !s.shares(a.Task) && (c.cfg.Limit.None() || !a.Assigned() && !s.serves(a.Task))
}

// attemptRecord checks an attempt against its previous state.
func (c *Checker) attemptRecord(s *Job, a apitypes.Attempt) {
	k := attemptKey{a.Job, a.Task, a.Number}
	of := s.attempt(k)
	old := of.Attempt
	of.Attempt = a
	switch {
	case old.Number == 0 && a.Outcome != "":
		c.chunkAttempt(s, of)
		return
	case old.Number == 0:
		c.newAttempt(s, of)
		return
	}
	if old.Outcome != "" && old.Outcome != a.Outcome {
		c.Violatef(InvAttempt, "attempt %v had ended (%s) and is %q", k, old.Outcome, a.Outcome)
	}
	if of.settled && !reflect.DeepEqual(old, a) {
		c.Violatef(InvLedger, "attempt %v changes after it was settled", k)
	}
	if old.Outcome == "" && a.Outcome != "" {
		c.Say(s.ID, "attempt ends", record.ClusterID(a.Job, a.Task, a.Number)+": "+string(a.Outcome)+" "+a.Reason)
		c.spotLost(s, a)
		switch a.Outcome {
		case apitypes.OutcomeRefused:
			if !a.Assigned() { // a pool machine that no longer exists is not used again anyway
				c.avoidAfter(a)
			}
		case apitypes.OutcomeLost:
			c.checkLost(s, a)
		}
	}
}

// newAttempt checks an attempt when it is admitted.
func (c *Checker) newAttempt(s *Job, of *attemptState) {
	a, k := of.Attempt, attemptKey{of.Job, of.Task, of.Number}
	s.order = append(s.order, of)
	c.poolAttempt(a)
	c.checkMoved(s, a)
	c.checkPlaced(s, a)
	if c.competes(s, a) {
		c.checkOvertaken(s, a)
	}
	c.checkAdmitted(s, a)
	c.checkLostWork(s, a)
	if a.Number != 1 && !s.chunked(a.Task) {
		if before := s.attempt(attemptKey{a.Job, a.Task, a.Number - 1}); before.Number == 0 {
			c.Violatef(InvAttempt, "attempt %v has no predecessor", k)
		}
	}
	for _, other := range s.order {
		if other != of && other.task == k.task && other.Outcome == "" && !s.serves(k.task) {
			c.Violatef(InvAttempt, "attempts %d and %d of task %d of %s are open", other.attempt, k.attempt,
				k.task, s.ID)
		}
	}
	if _, done := s.finished[a.Task]; done {
		c.Violatef(InvFinished, "task %d of %s had succeeded and is admitted again", a.Task, s.ID)
	}
}

// outageFor is the length of an outage of the broker that must not lose work.
const outageFor = 30 * time.Minute

// healthyFor is the time after the command to run in which no cluster may be given up, even if its agents do not
// call.
const healthyFor = 5 * time.Minute

// checkLost checks two conditions for a cluster that is given up: it had time to report after its command to run, and
// the broker has not answered its agents for longer than an outage may take.
func (c *Checker) checkLost(s *Job, a apitypes.Attempt) {
	cluster := record.ClusterID(a.Job, a.Task, a.Number)
	run, ok := s.commanded[cluster]
	if !ok {
		return
	}
	answered := c.Now // the agent that was answered least recently
	for _, m := range s.machines {
		if m.Cluster != cluster {
			continue
		}
		if !m.Alive() || !m.Speaks {
			return
		}
		if m.Answered.Before(answered) {
			answered = m.Answered
		}
	}
	limit := c.cfg.SilentFor
	if a.Assigned() {
		limit, answered = c.cfg.Pool.LostAfter, time.Time{}
	}
	switch {
	case c.Now.Sub(run) <= min(limit, healthyFor):
		c.Violatef(InvHealthy, "%s is given up %v after its command to run", cluster, c.Now.Sub(run))
	case c.Now.Sub(answered) < outageFor:
		c.Violatef(InvOutage, "%s is given up, but the broker answered its agents %v ago", cluster, c.Now.Sub(answered))
	}
}

// avoidAfter records that a refused offer must be avoided, by the kind of failure.
func (c *Checker) avoidAfter(a apitypes.Attempt) {
	id := record.ClusterID(a.Job, a.Task, a.Number)
	for _, r := range c.refusals[id] {
		if r.text != a.Reason {
			continue
		}
		b := apitypes.Block{Cloud: a.Offer.Cloud, Service: a.Offer.Service, Kind: string(r.kind),
			Until: a.Ended.Add(c.cfg.BlockFor[r.kind])}
		switch r.kind {
		case "auth":
		case "quota":
			b.Region, b.Market = quotas.Extent(r.class, a.Offer)
			b.Family = cmp.Or(r.class, record.Family(a.Offer.InstanceType))
		default:
			b.Region, b.Zone, b.InstanceType, b.Market = a.Offer.Region, a.Offer.Zone, a.Offer.InstanceType,
				string(marketName(a.Offer.Spot))
			b.Reservation = a.Offer.Reservation
		}
		c.avoid = append(c.avoid, avoided{b, c.Now})
		return
	}
}

// blockRecord allows new launches that were refused for lack of quota, from the end of the block on, if machines that
// used the quota are being released.
func (c *Checker) blockRecord(w *store.Write) {
	k := decode[apitypes.Block](c, w)
	c.blocks[w.Key.Sort] = k
	if k.Kind != "quota" {
		return
	}
	for i := range c.avoid {
		b := &c.avoid[i].block
		if b.Kind == k.Kind && k.Until.Before(b.Until) && c.releases(*b) {
			b.Until = k.Until
		}
	}
}

// releases reports whether machines that a block covers are being released, or were a short time ago.
func (c *Checker) releases(b apitypes.Block) bool {
	for _, s := range c.Jobs {
		for _, cl := range s.clusters {
			if cl.Released() && !cl.Launched.IsZero() && record.Covers(b, cl.Offer, c.Now) {
				return true
			}
		}
		for _, a := range s.order { // provision may end the block after schedule has removed the cluster's record
			at, gone := s.released[a.cluster]
			if gone && s.hadMachines(a.cluster) && c.Now.Sub(at) <= c.cfg.Overhead && record.Covers(b, a.Offer, c.Now) {
				return true
			}
		}
	}
	return false
}

// close records that nothing needs a cluster any more.
func (c *Checker) close(s *Job, id string) {
	if _, ok := s.closed[id]; !ok {
		s.closed[id] = moment{c.Steps, c.Now}
	}
}

// derive applies a cluster's record to its attempt and task as if their own records had changed.
func (c *Checker) derive(s *Job, cl record.Cluster) {
	a := s.attempt(attemptKey{cl.Job, cl.Task, cl.Attempt}).Attempt
	if a.Number != 0 && a.Outcome == "" && cl.Outcome == apitypes.OutcomeSucceeded {
		a.Outcome, a.Ended = cl.Outcome, cl.Ended
		c.attemptRecord(s, a)
	}
	t, known := s.Tasks[cl.Task]
	if known && t.State == record.TaskLaunching && t.Attempt == cl.Attempt && cl.Started && cl.Outcome == "" {
		t.State, t.StartedAt = record.TaskRunning, cl.Running
		c.taskRecord(s, t)
	}
}

// clusterRecord checks a cluster against its previous state.
func (c *Checker) clusterRecord(s *Job, id string, w *store.Write) {
	if w.Op == store.Delete {
		if cl, ok := s.clusters[id]; ok {
			c.gone = append(c.gone, attemptKey{cl.Job, cl.Task, cl.Attempt})
		}
		delete(s.clusters, id)
		s.released[id] = c.Now
		c.close(s, id)
		return
	}
	cl := decode[record.Cluster](c, w)
	old, known := s.clusters[id]
	if !cl.LeaseUntil.IsZero() {
		s.leases[id] = cl.LeaseUntil
	}
	if cl.State != record.ClusterLaunching && cl.State != record.ClusterReleasing || cl.Made > 0 {
		s.heard[id] = true
	}
	if cl.Command == string(wire.Run) && old.Command != cl.Command {
		// The time counts from the decision, even if its commit was slow, provided that the record has the time of
		// the decision.
		s.commanded[id] = c.Now
		if cl.Since.After(old.Since) {
			s.commanded[id] = cl.Since
		}
	}
	s.clusters[id] = cl
	c.reserves = c.reserves || cl.Offer.Reservation != ""
	c.derive(s, cl)
	c.checkGang(s, old, cl)
	c.checkStopped(s, old, cl)
	c.checkReplaced(s, old, cl)
	if cl.Outcome != "" || cl.State == record.ClusterReleasing {
		c.close(s, id)
	}
	c.keptRecord(s, old, cl)
	if old.Outcome != "" && cl.Outcome != old.Outcome {
		c.Violatef(InvAttempt, "cluster %s had ended (%s) and is %q", id, old.Outcome, cl.Outcome)
	}
	if known {
		return
	}
	for _, a := range c.avoid {
		// A decision made after the refusal was committed must respect it.
		if cl.Intended.After(a.since) && record.Covers(a.block, cl.Offer, cl.Intended) {
			c.Violatef(InvBlock, "%s is bought %v after %s refused it there", id,
				cl.Intended.Sub(a.since).Round(time.Second), a.block.Kind)
		}
	}
}
