package check

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// gangChecker records which tasks of gangs the current transaction admits and starts.
type gangChecker struct {
	admitted, begun []gangTask
	broken          map[string]events.GangBroken // by event
	heard           []events.GangBroken          // events that the current transaction handles
	leaving         map[string]bool              // clusters that save their work because a task broke the gang before
}

// note records that a gang has broken.
func (g *gangChecker) note(e *store.Event) {
	if ev, err := events.Parse(e.Body); err == nil {
		if data, ok := ev.Data.(events.GangBroken); ok && !data.Done {
			g.broken[e.ID] = data
		}
	}
}

// gangTask is a task of a gang.
type gangTask struct {
	s    *Job
	task int
}

func (g *gangChecker) admit(s *Job, task int) {
	if s.gangName(task) != "" {
		g.admitted = append(g.admitted, gangTask{s, task})
	}
}

// checkJoining checks that machines that join a gang are bought only while the machines of their role run.
func (c *Checker) checkJoining(s *Job, task int) {
	if s.user == nil || s.user.Spec.Tasks[task].Joins == "" {
		return
	}
	c.Count("joins a gang")
	lead := s.user.Spec.Lead(task)
	cl, ok := s.clusters[record.ClusterID(s.ID, lead, s.Tasks[lead].Attempt)]
	if !ok || !cl.Started || cl.State != record.ClusterUp || cl.Outcome != "" {
		c.Violatef(InvJoin, "task %d of %s is admitted to join task %d, which is %s on a cluster in state %s",
			task, s.ID, lead, s.Tasks[lead].State, cl.State)
	}
}

// doneWithOthers reports whether a waiting task counts as done because another task has succeeded: the chief of its
// gang, or the task whose role it would have joined.
func (s *Job) doneWithOthers(t record.Task) bool {
	if t.State != record.TaskSucceeded || s.user == nil {
		return false
	}
	if lead := s.user.Spec.Lead(t.Index); lead >= 0 {
		return s.Tasks[lead].State == record.TaskSucceeded || s.doneWithChief(lead)
	}
	return s.doneWithChief(t.Index)
}

func (g *gangChecker) begin(s *Job, task int) {
	if s.gangName(task) != "" {
		g.begun = append(g.begun, gangTask{s, task})
	}
}

// checkBroken checks that a task that should restart by itself does so if another task of its gang runs. If one
// transaction handles several events and one of them restarts the whole gang, that applies to all tasks.
func (c *Checker) checkBroken() {
	for _, e := range c.gangs.heard {
		if s := c.state(e.Job); s.user != nil && !restarts(&s.user.Spec.Tasks[e.Task], e) {
			c.gangs.noteLeaving(s, e.Task)
		}
	}
	for _, e := range c.gangs.heard {
		c.checkAlone(e)
		c.gangs.noteLeaving(c.state(e.Job), e.Task)
	}
	c.gangs.heard = c.gangs.heard[:0]
}

// noteLeaving records the tasks of a gang that save their work. The whole gang restarts with them, even if a task
// that breaks later could restart by itself.
func (g *gangChecker) noteLeaving(s *Job, task int) {
	for _, i := range s.gang(task) {
		id := record.ClusterID(s.ID, i, s.Tasks[i].Attempt)
		if s.clusters[id].Leaving == record.LeaveGang {
			g.leaving[id] = true
		}
	}
}

func (c *Checker) checkAlone(e events.GangBroken) {
	s := c.state(e.Job)
	t := s.Tasks[e.Task]
	over := s.Record.State == apitypes.JobEnding || s.Record.State.Finished()
	if s.user == nil || over || t.Attempt != e.Attempt ||
		t.State != record.TaskQueued && t.State != record.TaskFailed || !restarts(&s.user.Spec.Tasks[e.Task], e) {
		return
	}
	for _, i := range s.gang(e.Task) {
		id := record.ClusterID(s.ID, i, s.Tasks[i].Attempt)
		cl := s.clusters[id]
		if i == e.Task || !cl.Started || cl.Outcome != "" || c.gangs.leaving[id] {
			continue
		}
		if cl.Leaving == record.LeaveGang {
			c.Violatef(InvRole, "task %d of %s should restart by itself, but task %d saves its work for it",
				e.Task, s.ID, i)
		}
		if cl.State == record.ClusterUp && !t.Alone {
			c.Violatef(InvRole, "task %d of %s should restart by itself, but waits for task %d, which runs",
				e.Task, s.ID, i)
		}
	}
	if t.Alone {
		c.Count("a role restarts alone")
	}
}

// restarts reports whether the configuration of a task makes it restart by itself after the event.
func restarts(t *dag.Task, e events.GangBroken) bool {
	to := dag.PodEvicted
	if e.Failed {
		to = dag.PodFailed
	}
	r, found := t.Reaction(to, e.ExitCode)
	return found && r.Action == dag.RestartRole
}

// mayAlone checks that a task may be admitted without the rest of its gang: the job configures this, and other tasks of
// the gang hold machines. Those tasks may finish before it starts.
func (c *Checker) mayAlone(t gangTask) {
	may := slices.ContainsFunc(t.s.user.Spec.Tasks[t.task].On, func(r dag.Reaction) bool {
		return r.Action == dag.RestartRole
	})
	held := slices.ContainsFunc(t.s.gang(t.task), func(i int) bool {
		switch t.s.Tasks[i].State {
		case record.TaskAdmitted, record.TaskLaunching, record.TaskRunning:
			return i != t.task
		default:
			return false
		}
	})
	c.Count("a role is admitted alone")
	if !may || !held {
		c.Violatef(InvRole, "task %d of %s restarts by itself: configured %v, others hold machines %v", t.task,
			t.s.ID, may, held)
	}
}

// leads records that a task, which may be a gang's chief, has succeeded.
func (s *Job) leads(task int, now time.Time) {
	if s.user != nil && s.user.Spec.Chief(task) {
		s.chiefSucceeded[task] = now
	}
}

// checkChiefs checks that a gang does not continue for long without its chief, after faults have stopped.
func (c *Checker) checkChiefs(s *Job) {
	if s.endBy.IsZero() || s.Record.State != apitypes.JobRunning {
		return
	}
	for i := range s.user.Spec.Tasks {
		if s.Tasks[i].Alone && c.overLimitWith(s, i) {
			s.limited[i] = c.Now
		}
		if c.overlooked(s, i) {
			c.Violatef(InvRole, "task %d of %s should restart by itself, but waits since %v", i, s.ID,
				s.entered[i].Sub(timeline.Beginning()).Round(time.Second))
		}
	}
	for chief, since := range s.chiefSucceeded {
		if from := later(since, s.calm); c.Now.Sub(from) < GiveUp/2 {
			continue
		}
		if left := s.gang(chief); len(left) > 0 {
			c.Violatef(InvChief, "the chief of gang %s of %s succeeded %v ago, but %d others have not finished",
				s.gangName(chief), s.ID, c.Now.Sub(since).Round(time.Minute), len(left))
		}
	}
}

// overlooked reports whether a task that should restart by itself has waited for a long time without a reason.
func (c *Checker) overlooked(s *Job, task int) bool {
	t := s.Tasks[task]
	return t.Alone && t.State == record.TaskQueued && s.Record.Queue == record.DefaultQueueName &&
		s.Record.BudgetUSD == 0 && max(t.MinPlan, s.Record.MinPlan) <= s.Record.Plan.Version &&
		s.Record.Suspended() == nil &&
		c.Now.Sub(later(later(later(later(s.entered[task], s.planned), s.calm), s.Record.Resumed()), s.limited[task])) >
			GiveUp/2
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runs reports whether a task has the command to run.
func (s *Job) runs(task int) bool {
	cl := s.clusters[record.ClusterID(s.ID, task, s.Tasks[task].Attempt)]
	return cl.Command == string(wire.Run) && cl.Outcome == ""
}

// checkTogether checks that a transaction admits, or starts, either all unfinished tasks of a gang or none.
func (c *Checker) checkTogether() {
	for _, step := range []struct {
		what string
		all  []gangTask
	}{{"admitted", c.gangs.admitted}, {"started", c.gangs.begun}} {
		for _, t := range step.all {
			alone := t.s.Tasks[t.task].Alone
			if alone && step.what == "admitted" {
				c.mayAlone(t)
			}
			for _, i := range t.s.gang(t.task) {
				if alone && (step.what == "admitted" || t.s.runs(i)) {
					continue
				}
				if !slices.Contains(step.all, gangTask{t.s, i}) {
					c.Violatef(InvGang, "task %d of %s is %s without task %d of its gang %s, which is %s", t.task,
						t.s.ID, step.what, i, t.s.gangName(t.task), t.s.Tasks[i].State)
				}
			}
		}
	}
	c.gangs.admitted, c.gangs.begun = c.gangs.admitted[:0], c.gangs.begun[:0]
}

// gangName returns the name of a task's gang, or an empty string.
func (s *Job) gangName(task int) string {
	if s.user == nil || task >= len(s.user.Spec.Tasks) {
		return ""
	}
	return s.user.Spec.Tasks[task].Gang
}

// gang returns the unfinished tasks of a task's gang, or only the task if it has no gang.
func (s *Job) gang(task int) (out []int) {
	if s.gangName(task) == "" {
		return []int{task}
	}
	for _, i := range s.user.Spec.Gang(task) {
		if s.Tasks[i].State != record.TaskSucceeded {
			out = append(out, i)
		}
	}
	return out
}

// narrow reports whether a job has a gang with more tasks than may run at once in its queue or an ancestor.
func (c *Checker) narrow(s *Job) bool {
	most, name := 0, s.Record.Queue
	for range len(c.queues) {
		if q := c.queues[name]; q.MaxRunning > 0 && (most == 0 || q.MaxRunning < most) {
			most = q.MaxRunning
		}
		name = c.queues[name].Parent
	}
	for _, tasks := range s.user.Spec.Gangs() {
		if most > 0 && len(tasks) > most {
			return true
		}
	}
	return false
}

func (s *Job) sameGang(a, b int) bool {
	return s.gangName(a) != "" && s.gangName(a) == s.gangName(b)
}
