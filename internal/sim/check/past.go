package check

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// For jobs that expire or are removed:
const (
	// InvLiving: records and objects of a job are marked only after the job has finished. They are removed only when
	// its time has passed or a user has removed it.
	InvLiving = "nothing of a living job expires"
	// InvUsage: the usage counts a finished, expired or removed job by the same amounts as its attempts.
	InvUsage = "usage is the same after expiry"
	// InvGone: of a job that was removed, nothing stays but its record.
	InvGone = "nothing of a removed job is left"
)

// lasting are the kinds of records that a job has until it is removed.
var lasting = []string{"job", "progress", "ledger", "task", "attempt", "spec", "plan", "planned", "bids"}

// checkRemoval checks a write that removes a job's record or lets it expire.
func (c *Checker) checkRemoval(s *Job, kind string, w *store.Write) {
	past := s.Record.Past
	switch {
	case !slices.Contains(lasting, kind):
	case w.Op == store.Delete && past.Gone.IsZero():
		c.Violatef(InvLiving, "%s is removed, but its job is %s", w.Key, s.Record.State)
	case w.Op == store.Put && !w.Expires.IsZero() && (!s.Record.State.Finished() || w.Expires.Before(past.Expires)):
		c.Violatef(InvLiving, "%s expires at %v, but its job is %s", w.Key, w.Expires, s.Record.State)
	}
}

// ObjectRemoved checks an object that the broker removes.
func (c *Checker) ObjectRemoved(uri string) {
	if s := c.ofObject(uri); s == nil || s.Record.Past.Gone.IsZero() {
		c.Violatef(InvLiving, "%s is removed, but its job exists", uri)
	}
	c.Count("output removed")
}

// ofObject returns the job of an object: the first part of the object's path is the job's ID.
func (c *Checker) ofObject(uri string) *Job {
	parts := strings.SplitN(uri, "/", 5) // sim://STORE/JOB/…
	if len(parts) < 5 {
		return nil
	}
	return c.Jobs[parts[3]]
}

// checkPast checks the past in a job's record when the job finishes, and when it is removed.
func (c *Checker) checkPast(s *Job, old, j record.Job) {
	if !old.State.Finished() && j.State.Finished() {
		c.checkHeld(s, j)
	}
	if old.Past.Gone.IsZero() && !j.Past.Gone.IsZero() {
		over := s.user.Spec.Keep > 0 && !c.Now.Before(old.Finished.Add(s.user.Spec.Keep))
		if !old.State.Finished() || !over && !s.user.Removed {
			c.Violatef(InvLiving, "%s goes, but it is %s and is to be kept for %v", j.ID, old.State, s.user.Spec.Keep)
		}
		if over {
			c.Count("job expired")
		} else {
			c.Count("job removed")
		}
	}
}

// checkHeld compares the resources that a finished job held, by its record and by its attempts.
func (c *Checker) checkHeld(s *Job, j record.Job) {
	var tasks, vcpu float64
	for _, h := range j.Past.Held {
		tasks += h.To.Sub(h.From).Hours() * h.Tasks
		vcpu += h.To.Sub(h.From).Hours() * h.VCPU
	}
	wantTasks, wantVCPU := s.held(j)
	if math.Abs(tasks-wantTasks) > Rounding || math.Abs(vcpu-wantVCPU) > Rounding {
		c.Violatef(InvUsage, "%s held %v task hours and %v vCPU hours by its record, %v and %v by its attempts", j.ID,
			tasks, vcpu, wantTasks, wantVCPU)
	}
}

// held returns the hours of tasks and of vCPUs that a job's attempts have held.
func (s *Job) held(j record.Job) (tasks, vcpu float64) {
	for _, a := range s.order {
		h := record.HoldingOf(j, &a.Attempt, j.Finished)
		if d := h.To.Sub(h.From).Hours(); d > 0 {
			tasks, vcpu = tasks+d, vcpu+d*h.VCPU
		}
	}
	return tasks, vcpu
}

// checkUsage compares the usage of the queues with the attempts of all jobs, also of removed jobs.
func (c *Checker) checkUsage() {
	const month = 31 * 24 * time.Hour
	u, err := c.world.Broker().Views.Usage(context.Background(), month)
	if err != nil {
		c.Violatef(InvErrors, "usage: %v", err)
		return
	}
	want := map[string]float64{}
	for _, s := range c.order {
		tasks, _ := s.held(s.Record)
		want[s.Record.Queue] += tasks
	}
	for _, q := range u.Queues {
		tasks := 0.0
		for _, r := range q.Running {
			tasks += r * u.StepHours
		}
		if math.Abs(tasks-want[q.Name]) > Rounding*float64(1+len(c.order)) {
			c.Violatef(InvUsage, "queue %s held %v task hours, its jobs' attempts %v", q.Name, tasks, want[q.Name])
		}
		delete(want, q.Name)
	}
	for name, tasks := range want {
		if tasks > Rounding {
			c.Violatef(InvUsage, "queue %s is not in the usage; its jobs' attempts held %v task hours", name, tasks)
		}
	}
}

// checkGone checks that nothing stays of a job whose removal is complete.
func (c *Checker) checkGone() {
	pending := map[string]bool{}
	for r := range c.store.All() {
		if _, id, found := strings.Cut(r.Key.Sort, "#"); found && r.Key.Partition == record.PartExpiry {
			pending[id] = true
		}
	}
	complete := func(s *Job) bool { return s != nil && !s.Record.Past.Gone.IsZero() && !pending[s.ID] }
	for r := range c.store.All() {
		id, ofJob := strings.CutPrefix(r.Key.Partition, "job#")
		if ofJob && r.Key.Sort != "job" && r.Expires.IsZero() && complete(c.Jobs[id]) {
			c.Violatef(InvGone, "record %s remains", r.Key)
		}
	}
	for uri := range c.Data.Objects() {
		if complete(c.ofObject(uri)) {
			c.Violatef(InvGone, "object %s remains", uri)
		}
	}
}
