package check

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// gangChecker knows which tasks of gangs the transaction under way admits, and which it tells to begin.
type gangChecker struct{ admitted, begun []gangTask }

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

// checkJoining checks that machines which join a gang are bought while the machines of the role that they join run.
func (c *Checker) checkJoining(s *Job, task int) {
	if s.user == nil || s.user.Spec.Tasks[task].Joins == "" {
		return
	}
	c.Count("joins a gang")
	lead := s.user.Spec.Lead(task)
	cl, ok := s.clusters[record.ClusterID(s.ID, lead, s.Tasks[lead].Attempt)]
	if !ok || !cl.Started || cl.State != record.ClusterUp || cl.Outcome != "" {
		c.Violatef(InvJoin, "task %d of %s is admitted to join task %d, which is %s on a cluster that is %s",
			task, s.ID, lead, s.Tasks[lead].State, cl.State)
	}
}

// doneWithOthers says of a task that waits that it is done all the same: its gang's chief is, or the task whose role it
// would have joined.
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

// checkTogether checks that a transaction admits all of a gang or nothing, and tells all of it to begin or nothing: all
// but what is done.
func (c *Checker) checkTogether() {
	for _, step := range []struct {
		what string
		all  []gangTask
	}{{"admitted", c.gangs.admitted}, {"told to begin", c.gangs.begun}} {
		for _, t := range step.all {
			for _, i := range t.s.gang(t.task) {
				if !slices.Contains(step.all, gangTask{t.s, i}) {
					c.Violatef(InvGang, "task %d of %s is %s without task %d of its gang %s, which is %s", t.task,
						t.s.ID, step.what, i, t.s.gangName(t.task), t.s.Tasks[i].State)
				}
			}
		}
	}
	c.gangs.admitted, c.gangs.begun = c.gangs.admitted[:0], c.gangs.begun[:0]
}

// gangName is the gang that a task's author put it in.
func (s *Job) gangName(task int) string {
	if s.user == nil || task >= len(s.user.Spec.Tasks) {
		return ""
	}
	return s.user.Spec.Tasks[task].Gang
}

// gang are the tasks of a task's gang that are not done: itself where it is in none.
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

// narrow says whether a job has a gang of more tasks than its queue, or one above it, lets run at once.
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
