package optimizer

import (
	"context"
	"fmt"
	"slices"
)

// Session solves one model again and again while locations are blocked and freed,
// prices move and tasks finish. It keeps what such changes leave as it was: the
// graph, the prices of transfers, the plan in force to start from, and what
// message passing has learnt of the cost network. Each answer is as proven as
// that of [Solve] on [Session.Model]; where several plans are equally good it
// prefers the one in force.
//
// A Session is not safe for concurrent use.
type Session struct {
	model    Model // the session's own tasks, candidates and edges
	frame    *instance
	rank     map[string]int // task id to model index
	messages *messages
	dom      *domination
	// fixed marks the tasks that have begun or are done.
	fixed []bool
	// picks is the plan in force, nil before the first.
	picks []int
	// work is what the last Solve took, in the steps of Options.WorkLimit.
	work int64
}

// NewSession prepares to solve m, of which it keeps a copy. It returns a
// *[ModelError] for a model that is not well formed.
func NewSession(m *Model) (*Session, error) {
	s := &Session{model: *m, rank: make(map[string]int, len(m.Tasks)), fixed: make([]bool, len(m.Tasks))}
	s.model.Tasks = slices.Clone(m.Tasks)
	for i := range s.model.Tasks {
		s.model.Tasks[i].Candidates = slices.Clone(m.Tasks[i].Candidates)
		s.rank[m.Tasks[i].ID] = i
	}
	s.model.Edges = slices.Clone(m.Edges)
	f, err := frame(&s.model)
	if err != nil {
		return nil, err
	}
	f.hrsT = transposed(f.hrs, f.nPlace)
	f.blocked = make([][]bool, len(m.Tasks))
	s.frame = f
	return s, nil
}

// Model returns the model as it stands, without what is blocked. It is what
// Solve solves; its candidates are not those of Solution.Picks, which index the
// model that the session was made with.
func (s *Session) Model() *Model {
	m := s.model
	m.Tasks = make([]Task, len(s.model.Tasks))
	for i, t := range s.model.Tasks {
		m.Tasks[i] = Task{ID: t.ID, Candidates: []Candidate{}}
		for k := range t.Candidates {
			if !s.frame.isBlocked(int32(i), k) { // #nosec G115 -- at most MaxTasks
				m.Tasks[i].Candidates = append(m.Tasks[i].Candidates, t.Candidates[k])
			}
		}
	}
	m.Edges = slices.Clone(s.model.Edges)
	return &m
}

// Block leaves out the candidates that pred names, given the task's id and the
// candidate, until [Session.Unblock]; fixed tasks keep theirs. It returns how
// many it has left out.
func (s *Session) Block(pred func(task string, c *Candidate) bool) int {
	return s.mark(true, pred)
}

// Unblock takes the candidates that pred names back in, and returns how many.
func (s *Session) Unblock(pred func(task string, c *Candidate) bool) int {
	return s.mark(false, pred)
}

func (s *Session) mark(blocked bool, pred func(string, *Candidate) bool) int {
	changed := 0
	for i := range s.model.Tasks {
		if s.fixed[i] {
			continue
		}
		t := &s.model.Tasks[i]
		for k := range t.Candidates {
			if s.frame.isBlocked(int32(i), k) == blocked || !pred(t.ID, &t.Candidates[k]) { // #nosec G115 -- at most MaxTasks
				continue
			}
			if s.frame.blocked[i] == nil {
				s.frame.blocked[i] = make([]bool, len(t.Candidates))
			}
			s.frame.blocked[i][k] = blocked
			changed++
		}
	}
	return changed
}

// Reprice sets the cost and the time of every candidate to what price returns
// for it. It returns a *[ModelError] for a value that a model may not hold, and
// then has changed nothing. Fixed tasks stay as they are.
func (s *Session) Reprice(price func(task string, c *Candidate) (usd, hours float64)) error {
	for _, dry := range []bool{true, false} {
		for i := range s.model.Tasks {
			t := &s.model.Tasks[i]
			for k := range t.Candidates {
				if s.fixed[i] {
					break
				}
				c := t.Candidates[k]
				c.USD, c.Hours = price(t.ID, &c)
				if field, why := s.model.badCandidate(&c); why != "" {
					return modelErrorf(indexed(indexed("tasks", i)+".candidates", k)+"."+field, "%s", why)
				}
				if !dry {
					t.Candidates[k] = c
				}
			}
		}
	}
	return nil
}

// Fix pins a task that has begun to the candidate that it runs on, with the hours
// that it is going to take from now and what it is yet to cost: 0 and 0 for one
// that is done. The data it started from has been moved and costs nothing any
// more. The candidate may have been blocked. Its emissions stay as they are: a cap
// is on those of the whole plan.
func (s *Session) Fix(task string, candidate int, usd, hours float64) error {
	i, ok := s.rank[task]
	if !ok {
		return fmt.Errorf("optimizer: no task has the id %q", clip(task))
	}
	t := &s.model.Tasks[i]
	if candidate < 0 || candidate >= len(t.Candidates) {
		return fmt.Errorf("optimizer: task %q has no candidate %d", clip(task), candidate)
	}
	c := t.Candidates[candidate]
	c.USD, c.Hours = usd, hours
	if field, why := s.model.badCandidate(&c); why != "" {
		return modelErrorf(indexed(indexed("tasks", i)+".candidates", candidate)+"."+field, "%s", why)
	}
	t.Candidates[candidate] = c
	s.frame.blocked[i] = make([]bool, len(t.Candidates))
	for k := range t.Candidates {
		s.frame.blocked[i][k] = k != candidate
	}
	if s.fixed[i] {
		return nil
	}
	s.fixed[i] = true
	for e := range s.model.Edges {
		if s.model.Edges[e].To == task {
			s.model.Edges[e].GiB = 0
		}
	}
	for e := range s.frame.edges {
		if l := &s.frame.edges[e]; s.frame.order[l.to] == int32(i) { // #nosec G115 -- at most MaxTasks
			l.sumGiB, l.maxGiB = 0, 0
		}
	}
	s.messages = nil // of transfers that are no more
	return nil
}

// SetBounds changes the deadline and the budget; nil is none. It returns a
// *[ModelError] for a value that a model may not hold.
func (s *Session) SetBounds(deadlineHours, budgetUSD *float64) error {
	m := s.model
	m.DeadlineHours, m.BudgetUSD = deadlineHours, budgetUSD
	if err := m.checkBounds(); err != nil {
		return err
	}
	s.model = m
	return nil
}

// Solve finds the best plan for the model as it stands, like [Solve]. Without a
// hint in o it starts from the plan in force, the last one found.
func (s *Session) Solve(ctx context.Context, o Options) (*Solution, error) {
	if s.model.Objective == Carbon || s.model.CarbonCapKg != nil {
		return s.solveAnew(ctx, o)
	}
	meter := newMeter(ctx, o)
	inst := *s.frame
	inst.opts = make([]option, 0, s.frame.nTask()*s.frame.nPlace)
	f := foldingFor(&s.model)
	inst.setOptions(f)
	v := &solver{inst: &inst, meter: meter, thresholds: defaultThresholds()}
	if entries := inst.nPlace * (inst.nTask() + 2*len(inst.edges)); f == foldCheapest && entries <= v.thresholds.sessionEntries {
		if s.messages == nil {
			s.messages = newMessages(&inst)
		}
		v.messages = s.messages
		if s.dom == nil {
			s.dom = newDomination(&inst)
		}
		v.dom = s.dom
	}
	hint := o.Hint
	if hint == nil {
		hint = s.picks
	}
	sol, err := v.run(hint)
	s.work = meter.work
	if err == nil && sol.Picks != nil {
		s.picks = slices.Clone(sol.Picks)
	}
	return sol, err
}

// solveAnew solves the model as it stands, from the hint alone.
func (s *Session) solveAnew(ctx context.Context, o Options) (*Solution, error) {
	hint := o.Hint
	if hint == nil {
		hint = s.picks
	}
	if hint != nil {
		hint = s.translate(hint, s.freeBefore)
	}
	meter := newMeter(ctx, o)
	sol, err := solveOn(meter, s.Model(), hint, defaultThresholds())
	s.work = meter.work
	if err != nil || sol.Picks == nil {
		return sol, err
	}
	sol.Picks = s.translate(sol.Picks, s.free)
	s.picks = slices.Clone(sol.Picks)
	return sol, nil
}

func (s *Session) translate(picks []int, f func(task, k int) int) []int {
	out := make([]int, len(picks))
	for t, k := range picks {
		out[t] = f(t, k)
	}
	return out
}

// freeBefore is how many candidates of task t that are not blocked come before
// candidate k, -1 where k is blocked itself or is none.
func (s *Session) freeBefore(t, k int) int {
	i := int32(t) // #nosec G115 -- at most MaxTasks
	if t >= len(s.model.Tasks) || k < 0 || k >= len(s.model.Tasks[t].Candidates) || s.frame.isBlocked(i, k) {
		return -1
	}
	n := 0
	for j := range k {
		if !s.frame.isBlocked(i, j) {
			n++
		}
	}
	return n
}

// free is the candidate of task t with n before it that are not blocked.
func (s *Session) free(t, n int) int {
	i := int32(t) // #nosec G115 -- at most MaxTasks
	for k := range s.model.Tasks[t].Candidates {
		if s.frame.isBlocked(i, k) {
			continue
		}
		if n == 0 {
			return k
		}
		n--
	}
	return -1
}
