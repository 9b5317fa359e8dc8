package attempt

import (
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// roles returns the records of a gang of two roles. Two tasks have joined the first role, and one has joined the
// second. All tasks run, except for the last one that joined the first role: its machines are up.
func roles(t *testing.T) *stage {
	t.Helper()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	s := &stage{t: t, records: map[record.Key]any{}, begun: now, now: now, no: 1, cfg: config.Default()}
	task := func(name, gang, joins, role string, nodes int) {
		s.spec.Tasks = append(s.spec.Tasks, dag.Task{Name: name, Run: "x", Gang: gang, Joins: joins, Role: role,
			Nodes: nodes, Resources: []dag.Resources{{}}})
		i := len(s.spec.Tasks) - 1
		id := record.ClusterID("j", i, 1)
		s.put(record.TaskKey("j", i), record.Task{Job: "j", Index: i, State: record.TaskRunning, Attempt: 1, Gang: gang,
			Joins: joins})
		s.put(record.AttemptKey("j", i, 1), apitypes.Attempt{Job: "j", Task: i, Number: 1, Nodes: nodes})
		cl := record.Cluster{ID: id, Job: "j", Task: i, Attempt: 1, State: record.ClusterUp, VCPU: 8 * float64(nodes),
			Command: string(wire.Run), Started: name != "third"}
		for n := range nodes {
			cl.Nodes = append(cl.Nodes, record.Node{Address: fmt.Sprintf("%s-%d", name, n)})
		}
		s.put(record.ClusterKey(id), cl)
	}
	task("first", "g", "", "worker", 2)
	task("server", "g", "", "", 1)
	task("second", "", "g", "worker", 3)
	task("third", "", "g", "worker", 1)
	task("other", "", "g", "server", 4)
	s.put(record.JobKey("j"), record.Job{ID: "j", State: apitypes.JobRunning, Tasks: 5})
	return s
}

// The ranks of a task that joins a role begin after the ranks of the tasks before it in the role. Its list of members
// has all running tasks and the task itself. Every member gets the minimum and maximum size of the gang.
func TestRanksOfJoiningTasks(t *testing.T) {
	s := roles(t)
	for task, c := range map[int]struct {
		first   int
		members map[string]int // the first rank of each in its role
	}{
		0: {0, map[string]int{"first": 0, "server": 0, "second": 2, "other": 1}},
		1: {0, map[string]int{"first": 0, "server": 0, "second": 2, "other": 1}},
		2: {2, map[string]int{"first": 0, "server": 0, "second": 2, "other": 1}},
		3: {5, map[string]int{"first": 0, "server": 0, "second": 2, "third": 5, "other": 1}},
		4: {1, map[string]int{"first": 0, "server": 0, "second": 2, "other": 1}},
	} {
		cl := of[record.Cluster](s, record.ClusterKey(record.ClusterID("j", task, 1)))
		g, err := Gang(s, of[record.Job](s, record.JobKey("j")), &s.spec, cl)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, m := range g.Members {
			got[m.Task] = m.First
			if m.Slots != 8 {
				t.Errorf("%s has %d slots a node, of 8 vCPUs", m.Task, m.Slots)
			}
		}
		if g.First != c.first || fmt.Sprint(got) != fmt.Sprint(c.members) || g.Least != 3 || g.Most != 11 {
			t.Errorf("%s gets rank %d, of %d to %d, and members %v",
				s.spec.Tasks[task].Name, g.First, g.Least, g.Most, got)
		}
	}
}

// When the task that is the gang's chief succeeds, the work of all other tasks of the gang is done, including those
// that joined.
func TestGangIsDoneWhenChiefSucceeds(t *testing.T) {
	for chief, want := range map[int]map[int]bool{
		0: {0: false, 1: true, 2: true, 3: true, 4: true},
		1: {0: true, 1: false, 2: true, 3: true, 4: true},
	} {
		s := roles(t)
		s.spec.Tasks[chief].On = []dag.Reaction{{Event: dag.TaskCompleted, Action: dag.Complete}}
		done := of[record.Task](s, record.TaskKey("j", chief))
		done.State = record.TaskSucceeded
		s.put(record.TaskKey("j", chief), done)
		for task, want := range want {
			st := Reporting{Cluster: record.Cluster{Job: "j", Task: task}}
			if err := st.LoadDone(s, &s.spec); err != nil || st.Done != want {
				t.Errorf("%s is the chief, and has succeeded: the work of %s is done: %v, %v", s.spec.Tasks[chief].Name,
					s.spec.Tasks[task].Name, st.Done, err)
			}
		}
	}
}

// A task of a gang may restart alone if its reactions allow that and another task of the gang is running.
func TestTaskRestartsAlone(t *testing.T) {
	taken := []dag.Reaction{{Event: dag.PodEvicted, Action: dag.RestartRole}}
	failed := []dag.Reaction{{Event: dag.PodFailed, Action: dag.RestartRole, ExitCodes: []int{3}}}
	member := func(index int, started bool) Member {
		return Member{Bought: true, Losing: Losing{Task: record.Task{Index: index}, Cluster: record.Cluster{
			ID: record.ClusterID("j", index, 1), State: record.ClusterUp, Command: string(wire.Run), Started: started}}}
	}
	gang := []dag.Reaction{{Event: dag.PodEvicted, Action: dag.RestartGang}}
	lost, done := events.GangBroken{Job: "j", Task: 1}, events.GangBroken{Task: 1, Done: true}
	code := func(n int) events.GangBroken { return events.GangBroken{Task: 1, Failed: true, ExitCode: n} }
	beside := []Member{member(0, true)}
	for name, c := range map[string]struct {
		on      []dag.Reaction
		e       events.GangBroken
		members []Member
		by      string // the running task that allows it
	}{
		"its machine was preempted":       {taken, lost, []Member{member(0, true), member(1, true)}, "j.0.1"},
		"the second of those left":        {taken, lost, []Member{member(0, false), member(2, true)}, "j.2.1"},
		"none of the others runs yet":     {taken, lost, []Member{member(0, false), member(1, true)}, ""},
		"there are no others":             {taken, lost, []Member{member(1, true)}, ""},
		"nothing says so":                 {nil, lost, []Member{member(0, true)}, ""},
		"the gang is to begin again":      {gang, lost, beside, ""},
		"it says so of failures alone":    {failed, lost, []Member{member(0, true)}, ""},
		"it has failed so":                {failed, code(3), beside, "j.0.1"},
		"it has failed otherwise":         {failed, code(4), beside, ""},
		"it is done, not lost":            {taken, done, beside, ""},
		"it failed, and says so of taken": {taken, code(3), beside, ""},
	} {
		runs, ok := RestartsAlone(&dag.Task{On: c.on}, c.e, c.members)
		if ok != (c.by != "") || ok && runs != record.ClusterKey(c.by) {
			t.Errorf("%s: %v, as %s runs", name, ok, runs.Sort)
		}
	}
}

// The agent must get the container image of the alternative of `resources` that its machine matches.
func TestAlternativeOfMachine(t *testing.T) {
	task := &dag.Task{Resources: []dag.Resources{
		{Cloud: "gcp", Image: "docker:gcp"},
		{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "big", Image: "docker:big"},
		{Cloud: "aws", Accelerator: "A100", Image: "docker:a100"},
		{Cloud: "aws", Region: "r", Image: "docker:r"},
	}}
	for _, c := range []struct {
		o    apitypes.Offer
		want string
	}{
		{apitypes.Offer{Cloud: "gcp", Region: "r"}, "docker:gcp"},
		{apitypes.Offer{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "BIG"}, "docker:big"},
		{apitypes.Offer{Cloud: "aws", Region: "r", Zone: "y", InstanceType: "big"}, "docker:r"},
		{apitypes.Offer{Cloud: "aws", Region: "s", InstanceType: "big", Accelerator: "a100"}, "docker:a100"},
		{apitypes.Offer{Cloud: "aws", Region: "s", InstanceType: "big"}, ""},
	} {
		got := ""
		if r := Alternative(task, c.o); r != nil {
			got = r.Image
		}
		if got != c.want {
			t.Errorf("%+v matches the alternative with %q, want %q", c.o, got, c.want)
		}
	}
}
