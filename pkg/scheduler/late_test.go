package scheduler_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// TestAJobIsLateWithItsOldTasksOnly: what of a job has just begun to wait does not go before what waits in others for
// too long, because something older of its own job did.
func TestAJobIsLateWithItsOldTasksOnly(t *testing.T) {
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

// TestANamespaceThatHoldsMuchIsNotStarved: what has waited for too long goes first, and keeps those behind it waiting,
// though its namespace holds more than others.
func TestANamespaceThatHoldsMuchIsNotStarved(t *testing.T) {
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
	snap := &scheduler.Snapshot{
		Now: now, Resources: []string{"cpu"}, GPU: -1,
		Nodes:  []scheduler.Node{{Name: "n", Capacity: scheduler.Vector{100}}},
		Queues: []scheduler.Queue{{Name: "q", Capability: scheduler.LimitOf(scheduler.Vector{8}, 1)}},
		Jobs: []scheduler.Job{
			job("held", "ada", 5, time.Hour, scheduler.Running),
			job("large", "ada", 4, time.Hour, scheduler.Pending),
			job("small", "bob", 1, time.Minute, scheduler.Pending),
		},
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
