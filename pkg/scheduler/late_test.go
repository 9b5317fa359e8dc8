package scheduler_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// TestOnlyOldTasksMakeJobOverdue: an old task of a job was overdue. A task of the same job that has just started to
// wait must not go before overdue tasks of other jobs.
func TestOnlyOldTasksMakeJobOverdue(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	task := func(id string, waited time.Duration) scheduler.Task {
		return scheduler.Task{ID: id, Since: now.Add(-waited),
			Spec: &scheduler.Spec{Request: scheduler.Vector{1}}}
	}
	policy, err := scheduler.ReadPolicy("p.yaml", []byte(`{actions: [allocate], tiers: [[{name: sla, args: {maxWait: 30m}}], [drf]]}`))
	if err != nil {
		t.Fatal(err)
	}
	old, young := time.Hour, time.Second
	snap := &scheduler.Snapshot{
		Now: now, Resources: []string{"cpu"}, GPU: -1,
		Nodes:      []scheduler.Node{{Name: "n", Capacity: scheduler.Vector{3}}},
		Queues:     []scheduler.Queue{{Name: "q"}},
		Namespaces: []scheduler.Namespace{{Name: "ada"}},
		Jobs: []scheduler.Job{
			{ID: "a", Queue: "q", Namespace: "ada", Phase: scheduler.Started, WaitingSince: now.Add(-old),
				Tasks: []scheduler.Task{task("0", old+time.Second), task("1", young)}},
			{ID: "b", Queue: "q", Namespace: "ada", Phase: scheduler.Started, WaitingSince: now.Add(-old),
				Tasks: []scheduler.Task{task("0", old), task("1", old)}},
		},
	}
	s, err := scheduler.Open(snap, policy)
	if err != nil {
		t.Fatal(err)
	}
	s.Run()
	for _, b := range s.Close().Binds {
		if b.Job == "a" && b.Task == "1" {
			t.Errorf("a task that waits for a second went before one that waits for an hour: %+v", b)
		}
	}
}

// TestOverdueJobGoesBeforeFairness: an overdue job must go first, and make the jobs behind it wait, even if its
// namespace holds more than others.
func TestOverdueJobGoesBeforeFairness(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	policy, err := scheduler.ReadPolicy("p.yaml",
		[]byte(`{actions: [allocate], tiers: [[{name: sla, args: {maxWait: 30m}}], [namespace, proportion]]}`))
	if err != nil {
		t.Fatal(err)
	}
	job := func(id, namespace string, cpus int64, waited time.Duration, state scheduler.State) scheduler.Job {
		since, node := now.Add(-waited), ""
		if state == scheduler.Running {
			node = "n"
		}
		return scheduler.Job{ID: id, Queue: "q", Namespace: namespace, Phase: scheduler.Started, WaitingSince: since,
			Tasks: []scheduler.Task{{ID: "0", Since: since, State: state, Node: node,
				Spec: &scheduler.Spec{Request: scheduler.Vector{cpus}}}}}
	}
	jobs := []scheduler.Job{
		job("held", "ada", 5, time.Hour, scheduler.Running),
		job("large", "ada", 4, time.Hour, scheduler.Pending),
		job("small", "bob", 1, time.Minute, scheduler.Pending),
	}
	for range jobs { // for each rotation
		jobs = append(jobs[1:], jobs[0])
		snap := &scheduler.Snapshot{
			Now: now, Resources: []string{"cpu"}, GPU: -1, Jobs: jobs,
			Nodes:  []scheduler.Node{{Name: "n", Capacity: scheduler.Vector{100}}},
			Queues: []scheduler.Queue{{Name: "q", Capability: scheduler.LimitOf(scheduler.Vector{8}, 1)}},
		}
		s, err := scheduler.Open(snap, policy)
		if err != nil {
			t.Fatal(err)
		}
		s.Run()
		if binds := s.Close().Binds; len(binds) > 0 {
			t.Errorf("a task that waits for a minute went before one that waits for an hour: %+v", binds)
		}
	}
}

// TestOverdueTasks: of two overdue jobs, the first one gets its turns as long as any of its waiting tasks is overdue,
// and no longer. It does not matter which of its tasks were placed before.
func TestOverdueTasks(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	policy, err := scheduler.ReadPolicy("p.yaml",
		[]byte(`{actions: [allocate], tiers: [[{name: sla, args: {maxWait: 30m}}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		first  []time.Duration // waiting time of each of the first job's tasks
		room   int64
		within int // number of the first job's tasks that are placed
	}{
		"old, then young":    {[]time.Duration{time.Hour, time.Second}, 2, 1},
		"young, then old":    {[]time.Duration{time.Second, time.Hour}, 2, 2},
		"both old":           {[]time.Duration{time.Hour, time.Hour}, 2, 2},
		"old to the second":  {[]time.Duration{time.Hour, 30 * time.Minute}, 2, 2},
		"a second younger":   {[]time.Duration{time.Hour, 30*time.Minute - time.Second}, 2, 1},
		"one of four is old": {[]time.Duration{time.Second, time.Second, time.Hour, time.Second}, 4, 3},
	} {
		snap := &scheduler.Snapshot{Now: now, Resources: []string{"cpu"}, GPU: -1,
			Queues: []scheduler.Queue{{Name: "q"}},
			Nodes:  []scheduler.Node{{Name: "n", Capacity: scheduler.Vector{c.room}}}}
		for i, waits := range [][]time.Duration{c.first, {time.Hour, time.Hour}} {
			j := scheduler.Job{ID: string(rune('a' + i)), Queue: "q", Phase: scheduler.Started,
				WaitingSince: now.Add(-time.Hour)}
			for k, waited := range waits {
				j.Tasks = append(j.Tasks, scheduler.Task{ID: string(rune('0' + k)), Since: now.Add(-waited),
					Spec: &scheduler.Spec{Request: scheduler.Vector{1}}})
			}
			snap.Jobs = append(snap.Jobs, j)
		}
		s, err := scheduler.Open(snap, policy)
		if err != nil {
			t.Fatal(err)
		}
		s.Run()
		got := 0
		for _, b := range s.Close().Binds {
			if b.Job == "a" {
				got++
			}
		}
		if got != c.within {
			t.Errorf("%s: %d of %d are of the first job, want %d", name, got, c.room, c.within)
		}
	}
}
