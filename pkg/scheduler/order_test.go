package scheduler_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Queues and namespaces are ordered by what they hold plus their past usage, divided by their weight, and independent
// of their order in the snapshot. The first one must get the only free core.
func TestLeastServedIsNext(t *testing.T) {
	for name, c := range map[string]struct{ first, next string }{
		"no past usage":                   {"used-cpu=4", ""},
		"nothing held":                    {"holds=2", "holds=0"},
		"little past usage and much held": {"used-cpu=4 holds=1", "used-cpu=1 holds=3"},
		"much past usage and little held": {"used-cpu=2 holds=3", "used-cpu=4 holds=0"},
		"past usage below weight":         {"used-cpu=2", "weight=4 used-cpu=6"},
		"held below weight":               {"holds=1", "weight=4 holds=3"},
		"past usage and held, by weight":  {"used-cpu=1 holds=1", "weight=3 used-cpu=1 holds=2"},
	} {
		for _, plugin := range []string{"queues", "namespaces"} {
			for _, turned := range []bool{false, true} {
				a, b := c.first, c.next
				if turned {
					a, b = b, a
				}
				w := newWorld(t)
				w.add("node n cpu=8")
				for i, line := range []string{a, b} {
					id := string(rune('a' + i))
					_, set := attributes("x " + line)
					var on []string
					for range w.count(set["holds"]) {
						on = append(on, "n")
					}
					job := "job " + id + " queue=q namespace=" + id + " cpu=1 tasks=9 on=" + strings.Join(on, ",")
					switch plugin {
					case "queues":
						w.add("queue " + id + " " + line + "\n" + strings.Replace(job, "queue=q", "queue="+id, 1))
					default:
						w.add("namespace " + id + " " + line + "\n" + job)
					}
				}
				if plugin == "namespaces" {
					w.add("queue q")
				}
				s, err := Open(&w.snap, policyOf(t, []string{"allocate"}, []string{"usage"}, ""))
				if err != nil {
					t.Fatal(err)
				}
				s.Run()
				want := map[bool]string{false: "b", true: "a"}[turned]
				binds := s.Close().Binds
				first := binds[0]
				for _, x := range binds {
					if x.Turn < first.Turn {
						first = x
					}
				}
				if first.Job != want {
					t.Errorf("%s, of %s, turned round %v: %s is next", name, plugin, turned, first.Job)
				}
			}
		}
	}
}

// A task can get shares of several GPUs that have enough left, whatever their indexes. The shares count towards the
// capability of the queue.
func TestSharesOfSeveralGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		used        int   // GPUs, of four, in which other tasks have a share
		share, most int64 // share of each used GPU, and capability of the queue
		placed      bool
	}{
		"none is used":           {0, 0, 4000, true},
		"two have enough left":   {2, 501, 4000, true},
		"one has enough left":    {3, 501, 4000, false},
		"half of each is left":   {3, 500, 4000, true},
		"exactly the capability": {2, 600, 2200, true},
		"above the capability":   {2, 600, 2199, false},
	} {
		for _, gpu := range []int{0, 2} {
			snap := &Snapshot{Resources: []string{"a", "b", "c"}, GPU: gpu, Nodes: []Node{{Name: "n", Devices: 4}}}
			q := Queue{Name: "q"}
			q.Capability.Set[gpu], q.Capability.Amount[gpu] = true, c.most
			snap.Queues = []Queue{q}
			r := Job{ID: "r", Queue: "q", Phase: Started}
			for d := range c.used {
				r.Tasks = append(r.Tasks, Task{ID: strconv.Itoa(d), State: Running, Node: "n", OnDevices: []int{d},
					Spec: &Spec{Devices: 1, Share: c.share}})
			}
			snap.Jobs = []Job{r, {ID: "j", Queue: "q", Phase: Started,
				Tasks: []Task{{ID: "0", Spec: &Spec{Devices: 2, Share: 500}}}}}
			s, err := Open(snap, policyOf(t, []string{"allocate"}, []string{"gang", "capacity+predicates"}, ""))
			if err != nil {
				t.Fatal(err)
			}
			s.Run()
			if binds := s.Close().Binds; (len(binds) == 1) != c.placed {
				t.Errorf("%s, GPUs being resource %d: %+v, as %v", name, gpu, binds, s.Why("j"))
			}
		}
	}
}

// A snapshot does not name all resources. An unnamed one must be reported by its number. Reservations must work
// without GPUs.
func TestUnnamedResources(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	q := Queue{Name: "q"}
	q.Capability.Set[1], q.Capability.Amount[1] = true, 2
	task := func(n int64) []Task { return []Task{{ID: "0", Spec: &Spec{Request: Vector{1, n}}}} }
	snap := &Snapshot{Now: now, Resources: []string{"cpu"}, GPU: -1, Queues: []Queue{q, {Name: "late"}},
		Nodes: []Node{{Name: "n", Capacity: Vector{4, 4}}}, Jobs: []Job{
			{ID: "r", Queue: "late", Phase: Started, Tasks: []Task{{ID: "0", State: Running, Node: "n",
				Ends: now.Add(time.Hour), Spec: &Spec{Request: Vector{1, 1}}}}},
			{ID: "j", Queue: "q", Phase: Started, Tasks: task(3)},
			{ID: "late", Queue: "late", Phase: Inqueue, Created: now.Add(-2 * time.Hour), Tasks: task(4)},
		}}
	s, err := Open(snap, policyOf(t, nil, nil, "actions: [allocate, reserve]\n"+
		"tiers: [[{name: sla, args: {maxWait: 1h}}, gang], [capacity, predicates]]"))
	if err != nil {
		t.Fatal(err)
	}
	s.Run()
	if why := s.Why("j"); len(why) == 0 || !strings.Contains(why[0].Text, "of at most 2 resource 1") {
		t.Errorf("%+v", why)
	}
	if kept := s.Close().Reservations; len(kept) != 1 || !kept[0].Start.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v", kept)
	}
}

// A policy cannot be read, or Check rejects it. It must not replace the current policy.
func TestHolderRejectsInvalidPolicy(t *testing.T) {
	refused := errors.New("not here")
	h := Holder{Check: func(p *Policy) error {
		if p.Actions[0] == "reclaim" {
			return refused
		}
		return nil
	}}
	if err := h.Reload("a.yaml", []byte("actions: [reclaim]\ntiers: [[gang]]")); !errors.Is(err, refused) {
		t.Errorf("refused: %v", err)
	}
	if err := h.Reload("b.yaml", []byte("actions: [dance]")); err == nil || h.Policy().Actions[0] == "reclaim" {
		t.Errorf("%v, and in force is %v", err, h.Policy().Actions)
	}
	err := h.Reload("c.yaml", []byte("actions: [preempt]\ntiers: [[gang]]"))
	if err != nil || h.Policy().Actions[0] != "preempt" {
		t.Errorf("%v, and in force is %v", err, h.Policy().Actions)
	}
}

// The needs of admitted jobs must count for their queue and its ancestors in admission checks.
func TestAdmittedJobsCountForQueues(t *testing.T) {
	w := newWorld(t)
	w.add("node n cpu=8\nqueue dept\nqueue a parent=dept\nqueue b parent=dept")
	w.add("job j queue=a phase=waiting cpu=1 min=2 tasks=3\njob k queue=b phase=waiting cpu=2 tasks=1\n" +
		"job l queue=b cpu=4 tasks=1")
	s, err := Open(&w.snap, policyOf(t, []string{"enqueue"}, []string{"gang"}, ""))
	if err != nil {
		t.Fatal(err)
	}
	s.Run()
	for name, want := range map[string]int64{"a": 2000, "b": 2000, "dept": 4000} {
		if got := s.Queue(name).Admitted[0]; got != want {
			t.Errorf("queue %s has let in %d thousandths of a core, want %d", name, got, want)
		}
	}
}

// Two jobs reserve the same node. Only the first reservation may hold.
func TestNodeIsReservedForOneJob(t *testing.T) {
	w := newWorld(t)
	w.add("queue q\nnode n cpu=2\njob r queue=q cpu=1 on=n left=1h")
	w.add("job a queue=q cpu=2 tasks=1\njob b queue=q cpu=2 tasks=1")
	for _, job := range []string{"a", "b"} {
		w.snap.Reservations = append(w.snap.Reservations, Reservation{Job: job, Nodes: []string{"n"}})
	}
	s, err := Open(&w.snap, policyOf(t, []string{"allocate"}, []string{"gang", "predicates"}, ""))
	if err != nil {
		t.Fatal(err)
	}
	if kept := s.Close().Reservations; len(kept) != 1 || kept[0].Job != "a" {
		t.Errorf("%+v", kept)
	}
}
