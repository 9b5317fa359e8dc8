package scheduler_test

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// flow is an action that allocates as Firmament does: it considers all waiting tasks at once, and finds the flow from
// tasks to nodes that places most tasks at the lowest cost. Here, each node takes one task, and the cost of a node is
// its negated score.
type flow struct{}

func (flow) Run(s *scheduler.Session) {
	var tasks []*scheduler.TaskInfo
	for _, j := range s.Waiting() {
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State == scheduler.Pending && !s.Limited(t) {
				tasks = append(tasks, t)
			}
		}
	}
	at := map[*scheduler.NodeInfo]*scheduler.TaskInfo{}
	for _, t := range tasks {
		augment(s, t, tasks, at)
	}
	for _, n := range s.Nodes {
		if t := at[n]; t != nil {
			st := s.Statement()
			st.Allocate(t, n)
			st.Commit()
		}
	}
}

// augment finds the cheapest path for one more task (Bellman and Ford). The task takes a node, whose task takes
// another node, and so on to a free node.
func augment(s *scheduler.Session, first *scheduler.TaskInfo, tasks []*scheduler.TaskInfo,
	at map[*scheduler.NodeInfo]*scheduler.TaskInfo,
) {
	to := map[*scheduler.TaskInfo]*scheduler.NodeInfo{}
	for n, t := range at {
		to[t] = n
	}
	dist, by := map[*scheduler.NodeInfo]float64{}, map[*scheduler.NodeInfo]*scheduler.TaskInfo{}
	reach := map[*scheduler.TaskInfo]float64{first: 0}
	for range tasks {
		for t, d := range reach {
			for _, n := range s.Nodes {
				x := s.Score(t, n)
				if x == scheduler.Never || to[t] == n {
					continue
				}
				if old, is := dist[n]; is && old <= d-x {
					continue
				}
				dist[n], by[n] = d-x, t
				if u := at[n]; u != nil {
					reach[u] = d - x + s.Score(u, n)
				}
			}
		}
	}
	var end *scheduler.NodeInfo
	least := math.Inf(1)
	for _, n := range s.Nodes {
		if d, is := dist[n]; is && at[n] == nil && d < least {
			end, least = n, d
		}
	}
	for n := end; n != nil; {
		t := by[n]
		before := to[t]
		at[n] = t
		n = before
	}
}

// A policy can name an action that the program adds. allocate gives the first task its best node, so none is left for
// the second task. The flow action moves the first task.
func ExampleWithAction() {
	big := scheduler.Vector{4}
	task := func(id string, request scheduler.Vector) scheduler.Job {
		return scheduler.Job{ID: id, Queue: "research", Namespace: "ada",
			Tasks: []scheduler.Task{{ID: "0", Spec: &scheduler.Spec{Request: request}}}}
	}
	for _, action := range []string{"allocate", "flow"} {
		s, err := scheduler.Open(&scheduler.Snapshot{
			Resources:  []string{"cpu"},
			GPU:        -1,
			Nodes:      []scheduler.Node{{Name: "a-big", Capacity: big}, {Name: "small", Capacity: scheduler.Vector{1}}},
			Queues:     []scheduler.Queue{{Name: "research"}},
			Namespaces: []scheduler.Namespace{{Name: "ada"}},
			Jobs:       []scheduler.Job{task("first", scheduler.Vector{1}), task("second", big)},
		}, &scheduler.Policy{
			Actions: []string{"enqueue", action}, Tiers: [][]scheduler.PluginConfig{{{Name: "alphabet"}}},
		}, scheduler.WithAction("flow", flow{}),
			scheduler.WithPlugin("alphabet", func(scheduler.Args) scheduler.Plugin { return alphabet{} }))
		if err != nil {
			fmt.Println(err)
			return
		}
		s.Run()
		for _, b := range s.Close().Binds {
			fmt.Printf("%s: %s on %s\n", action, b.Job, b.Node)
		}
	}
	// Output:
	// allocate: first on a-big
	// flow: first on small
	// flow: second on a-big
}
