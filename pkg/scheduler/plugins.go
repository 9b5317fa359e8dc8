package scheduler

import (
	"cmp"
	"fmt"
	"time"
)

// builtin is a plugin that a policy may name.
type builtin struct {
	name string
	args map[string]settingKind
	make func(Args) Plugin
}

func builtins() []builtin {
	return []builtin{
		{"gang", map[string]settingKind{"strandedFor": durationSetting}, newGang},
		{"priority", nil, func(Args) Plugin { return priority{} }},
		{"drf", nil, func(Args) Plugin { return &drf{} }},
		{"proportion", nil, func(Args) Plugin { return &shares{} }},
		{"capacity", nil, func(Args) Plugin { return &shares{fixed: true} }},
		{"namespace", nil, func(Args) Plugin { return &namespaces{} }},
		{"usage", map[string]settingKind{"halfLife": durationSetting}, newUsage},
		{"predicates", nil, func(Args) Plugin { return predicates{} }},
		{"nodeorder", map[string]settingKind{"leastAllocated": numberSetting, "balanced": numberSetting,
			"preferences": numberSetting}, newNodeOrder},
		{"binpack", map[string]settingKind{"weight": numberSetting, "device": numberSetting,
			"resources": numbersSetting}, newBinpack},
		{"sla", map[string]settingKind{"maxWait": durationSetting}, newSLA},
		{"tdm", map[string]settingKind{"windows": windowsSetting}, newTDM},
		{"topology", map[string]settingKind{"depth": numberSetting}, newTopology},
	}
}

// PluginNames returns the names of the built-in plugins.
func PluginNames() []string {
	all := builtins()
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.name
	}
	return names
}

// gang starts a job's members together or not at all. A job that runs with fewer members than its minimum is served
// first. After strandedFor it releases its resources: it cannot continue, and other jobs could use them.
type gang struct{ strandedFor time.Duration }

func newGang(a Args) Plugin { return gang{a.Duration("strandedFor", 5*time.Minute)} }

func (g gang) Open(s *Session) {
	g.guard(s)
	s.OrderJobs(func(a, b *JobInfo) int { return gangRank(a) - gangRank(b) })
	s.Evict(func() []Victim { return g.stranded(s) })
}

// guard prevents gangs from starting with fewer members than their minimum.
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

// gangRank puts jobs first that hold resources they can not use, then jobs that have not started, then jobs that only
// grow.
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

// stranded reports whether the job holds resources with fewer members than its minimum.
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

// priority puts jobs with a higher priority first and lets them preempt jobs with a lower one.
type priority struct{}

func (priority) Open(s *Session) {
	s.OrderQueues(func(a, b *QueueInfo) int { return cmp.Compare(b.Queue.Priority, a.Queue.Priority) })
	s.OrderJobs(func(a, b *JobInfo) int { return cmp.Compare(b.priority, a.priority) })
	s.OrderTasks(func(a, b *TaskInfo) int { return cmp.Compare(b.Task.Spec.Priority, a.Task.Spec.Priority) })
	s.Preemptable(func(t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
		return keep(candidates, func(v *TaskInfo) bool { return v.Job.Job.Priority < t.Job.Job.Priority })
	})
}

func keep(candidates []*TaskInfo, ok func(v *TaskInfo) bool) (out []*TaskInfo) {
	for _, v := range candidates {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}

// drf is dominant resource fairness between jobs: the job with the smallest dominant share comes first.
type drf struct{ shares []float64 }

func (d *drf) Open(s *Session) {
	d.shares = make([]float64, len(s.Jobs))
	for i, j := range s.Jobs {
		d.shares[i] = Share(&j.Allocated, &s.Total)
	}
	update := func(t *TaskInfo) { d.shares[t.Job.Index] = Share(&t.Job.Allocated, &s.Total) }
	s.Handle(Handler{update, update})
	s.OrderJobs(func(a, b *JobInfo) int { return cmp.Compare(d.shares[a.Index], d.shares[b.Index]) })
	s.Preemptable(func(t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
		after := t.Job.Allocated.Plus(t.Class.request)
		mine := Share(&after, &s.Total)
		return keep(candidates, func(v *TaskInfo) bool {
			rest := v.Job.Allocated.Minus(v.Class.request)
			return v.Job.Job.Priority <= t.Job.Job.Priority && Share(&rest, &s.Total) >= mine
		})
	})
}

// namespaces shares by weight between users, whichever queues their jobs are in.
type namespaces struct{}

func (*namespaces) Open(s *Session) {
	of := make([]float64, len(s.Namespaces))
	update := func(n *NamespaceInfo) {
		of[n.Index] = Share(&n.Allocated, &s.Total) / weight(n.Namespace.Weight)
	}
	for _, n := range s.Namespaces {
		update(n)
	}
	handle := func(t *TaskInfo) { update(t.Job.Namespace) }
	s.Handle(Handler{handle, handle})
	s.OrderNamespaces(func(a, b *NamespaceInfo) int { return cmp.Compare(of[a.Index], of[b.Index]) })
}

// sla puts overdue jobs (waiting longer than maxWait) before others and reserves nodes for them.
type sla struct{ maxWait time.Duration }

func newSLA(a Args) Plugin { return sla{a.Duration("maxWait", 0)} }

// lateness is the part of a job's waiting that does not change in a session.
type lateness uint8

const (
	notLate     lateness = iota
	lateToStart          // overdue while it has fewer members than its minimum
	lateToGrow           // overdue while any of its tasks has waited too long
)

// waitLimit returns how long a job may wait; 0 is unlimited.
func (p sla) waitLimit(j *Job) time.Duration {
	if j.MaxWait != 0 {
		return j.MaxWait
	}
	return p.maxWait
}

func (p sla) late(s *Session, j *Job) lateness {
	most := p.waitLimit(j)
	since, late := j.WaitingSince, lateToGrow
	if since.IsZero() {
		since, late = j.Created, lateToStart
	}
	if most <= 0 || since.IsZero() || s.Now.Sub(since) < most {
		return notLate
	}
	return late
}

func (p sla) Open(s *Session) {
	all, fresh := make([]lateness, len(s.Jobs)), make([]int32, len(s.Jobs))
	young := func(t *TaskInfo) bool { // the task itself has not waited too long
		return !t.Task.Since.IsZero() && s.Now.Sub(t.Task.Since) < p.waitLimit(t.Job.Job)
	}
	for i, j := range s.Jobs {
		if all[i] = p.late(s, j.Job); all[i] != lateToGrow {
			continue
		}
		for k := range j.Tasks {
			if t := &j.Tasks[k]; t.State == Pending && young(t) {
				fresh[i]++
			}
		}
	}
	change := func(by int32) func(*TaskInfo) {
		return func(t *TaskInfo) {
			if all[t.Job.Index] == lateToGrow && young(t) {
				fresh[t.Job.Index] += by
			}
		}
	}
	s.Handle(Handler{change(-1), change(1)})
	late := func(j *JobInfo) bool {
		switch all[j.Index] {
		case lateToGrow:
			return j.count[Pending] > fresh[j.Index]
		case lateToStart:
			return j.count[Pending] > 0 && !j.full(true)
		}
		return false
	}
	s.OrderJobs(func(a, b *JobInfo) int {
		switch x := late(a); {
		case x == late(b):
			return 0
		case x:
			return -1
		}
		return 1
	})
	s.Reservable(late)
}

// topology places the members of gangs close together.
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
