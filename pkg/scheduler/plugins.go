package scheduler

import (
	"fmt"
	"time"
)

// builtin is a plugin that a policy may name.
type builtin struct {
	name string
	args map[string]argKind
	make func(Args) Plugin
}

func builtins() []builtin {
	return []builtin{
		{"gang", map[string]argKind{"strandedFor": argDuration}, newGang},
		{"priority", nil, func(Args) Plugin { return priority{} }},
		{"drf", nil, func(Args) Plugin { return &drf{} }},
		{"proportion", nil, func(Args) Plugin { return &shares{} }},
		{"capacity", nil, func(Args) Plugin { return &shares{fixed: true} }},
		{"namespace", nil, func(Args) Plugin { return &namespaces{} }},
		{"usage", map[string]argKind{"halfLife": argDuration}, newUsage},
		{"predicates", nil, func(Args) Plugin { return predicates{} }},
		{"nodeorder", map[string]argKind{"leastAllocated": argNumber, "balanced": argNumber, "preferences": argNumber},
			newNodeOrder},
		{"binpack", map[string]argKind{"weight": argNumber, "device": argNumber, "resources": argNumbers}, newBinpack},
		{"sla", map[string]argKind{"maxWait": argDuration}, newSLA},
		{"tdm", map[string]argKind{"windows": argWindows}, newTDM},
		{"topology", map[string]argKind{"depth": argNumber}, newTopology},
	}
}

// PluginNames are the plugins that a policy may name.
func PluginNames() []string {
	all := builtins()
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.name
	}
	return names
}

// gang starts a job's members together or not at all. One that runs with fewer than its minimum comes first, and gives
// up after a time what it has: it can not go on, and others could.
type gang struct{ strandedFor time.Duration }

func newGang(a Args) Plugin { return gang{a.Duration("strandedFor", 5*time.Minute)} }

func (g gang) Open(s *Session) {
	g.guard(s)
	s.OrderJobs(func(a, b *JobInfo) int { return gangRank(a) - gangRank(b) })
	s.Evict(func() []Victim { return g.stranded(s) })
}

// guard has no gang start with fewer than its minimum.
func (gang) guard(s *Session) {
	s.Validate(func(j *JobInfo) string {
		left := len(j.Tasks) - j.Count(Failed)
		if left < j.Min() {
			return fmt.Sprintf("it needs %d members at once and has %d tasks left", j.Min(), left)
		}
		return ""
	})
	s.Ready(func(j *JobInfo) bool { return j.full(false) })
	s.PipelinedWhen(func(j *JobInfo) bool { return j.full(true) })
}

// gangRank puts those that hold something they can not use first, then those that have not started, then those that
// only grow.
func gangRank(j *JobInfo) int {
	switch {
	case j.full(true):
		return 2
	case j.stranded():
		return 0
	default:
		return 1
	}
}

// stranded says whether the job holds resources with fewer members than its minimum.
func (j *JobInfo) stranded() bool {
	return j.count[Running]+j.count[Bound]+j.count[Binding] > 0 && !j.full(false)
}

func (g gang) stranded(s *Session) (out []Victim) {
	for _, j := range s.Jobs {
		if j.stranded() && !j.full(true) && !j.Job.Stranded.IsZero() && s.Now.Sub(j.Job.Stranded) >= g.strandedFor {
			for _, t := range j.evictable()[:1] {
				out = append(out,
					Victim{t, fmt.Sprintf("its gang has been below its minimum of %d for %v", j.Min(),
						s.Now.Sub(j.Job.Stranded))})
			}
		}
	}
	return out
}

// priority puts what is more important first, and lets it take from what is less so.
type priority struct{}

func (priority) Open(s *Session) {
	s.OrderQueues(func(a, b *QueueInfo) int { return descending(a.Queue.Priority, b.Queue.Priority) })
	s.OrderJobs(func(a, b *JobInfo) int { return descending(a.priority, b.priority) })
	s.OrderTasks(func(a, b *TaskInfo) int { return descending(a.Task.Spec.Priority, b.Task.Spec.Priority) })
	s.Preemptable(func(t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
		return keep(candidates, func(v *TaskInfo) bool { return v.Job.Job.Priority < t.Job.Job.Priority })
	})
}

func descending(a, b int) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

func keep(candidates []*TaskInfo, ok func(v *TaskInfo) bool) (out []*TaskInfo) {
	for _, v := range candidates {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}

// drf is dominant resource fairness between jobs: the one that holds the least of what it holds most of comes first.
type drf struct{ shares []float64 }

func (d *drf) Open(s *Session) {
	d.shares = make([]float64, len(s.Jobs))
	for i, j := range s.Jobs {
		d.shares[i] = share(&j.Allocated, &s.Total)
	}
	update := func(t *TaskInfo) { d.shares[t.Job.Index] = share(&t.Job.Allocated, &s.Total) }
	s.Handle(Handler{update, update})
	s.OrderJobs(func(a, b *JobInfo) int { return compareFloats(d.shares[a.Index], d.shares[b.Index]) })
	s.Preemptable(func(t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
		after := t.Job.Allocated.Plus(t.Class.request)
		mine := share(&after, &s.Total)
		return keep(candidates, func(v *TaskInfo) bool {
			rest := v.Job.Allocated.Minus(v.Class.request)
			return v.Job.Job.Priority <= t.Job.Job.Priority && share(&rest, &s.Total) >= mine
		})
	})
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// namespaces shares by weight between users, whichever queues their jobs are in.
type namespaces struct{}

func (*namespaces) Open(s *Session) {
	of := make([]float64, len(s.Namespaces))
	update := func(n *NamespaceInfo) { of[n.Index] = share(&n.Allocated, &s.Total) / weight(n.Namespace.Weight) }
	for _, n := range s.Namespaces {
		update(n)
	}
	handle := func(t *TaskInfo) { update(t.Job.Namespace) }
	s.Handle(Handler{handle, handle})
	s.OrderNamespaces(func(a, b *NamespaceInfo) int { return compareFloats(of[a.Index], of[b.Index]) })
}

// sla orders jobs that have waited for too long before the others, and has nodes kept for them.
type sla struct{ maxWait time.Duration }

func newSLA(a Args) Plugin { return sla{a.Duration("maxWait", 0)} }

// lateness is what of a job's waiting does not change in a session.
type lateness uint8

const (
	notLate    lateness = iota
	lateToGo            // late while it has not its minimum of members
	lateToGrow          // late while any of its tasks waits
)

func (p sla) late(s *Session, j *Job) lateness {
	most := j.MaxWait
	if most == 0 {
		most = p.maxWait
	}
	since, late := j.WaitingSince, lateToGrow
	if since.IsZero() {
		since, late = j.Created, lateToGo
	}
	if most <= 0 || since.IsZero() || s.Now.Sub(since) < most {
		return notLate
	}
	return late
}

func (p sla) Open(s *Session) {
	all := make([]lateness, len(s.Jobs))
	for i, j := range s.Jobs {
		all[i] = p.late(s, j.Job)
	}
	late := func(j *JobInfo) bool {
		l := all[j.Index]
		return l != notLate && j.count[Pending] > 0 && (l == lateToGrow || !j.full(true))
	}
	s.OrderJobs(func(a, b *JobInfo) int {
		x, y := late(a), late(b)
		switch {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	s.Reservable(late)
}

// topology has gangs stand close together.
type topology struct{ depth int }

func newTopology(a Args) Plugin { return topology{int(a.Number("depth", 0))} }

func (p topology) Open(s *Session) {
	s.Gather(func(j *JobInfo) Closeness {
		if j.Job.Close.Depth > 0 || p.depth == 0 || j.Min() == 1 {
			return j.Job.Close
		}
		return Closeness{Depth: p.depth}
	})
}
