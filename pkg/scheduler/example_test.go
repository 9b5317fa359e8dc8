package scheduler_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// A gang of three starts as a whole or not at all. Nodes that the gang cannot use go to another job.
func ExampleOpen() {
	two := &scheduler.Spec{Request: scheduler.Vector{2}}
	job := func(id string, least, tasks int) scheduler.Job {
		j := scheduler.Job{ID: id, Queue: "research", Namespace: "ada", Min: least}
		for i := range tasks {
			j.Tasks = append(j.Tasks, scheduler.Task{ID: fmt.Sprint(i), Spec: two})
		}
		return j
	}
	s, err := scheduler.Open(&scheduler.Snapshot{
		Resources:  []string{"cpu"},
		GPU:        -1,
		Nodes:      []scheduler.Node{{Name: "n0", Capacity: scheduler.Vector{4}}},
		Queues:     []scheduler.Queue{{Name: "research"}},
		Namespaces: []scheduler.Namespace{{Name: "ada"}},
		Jobs:       []scheduler.Job{job("gang", 3, 3), job("single", 1, 1)},
	}, scheduler.DefaultPolicy())
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Run()
	for _, b := range s.Close().Binds {
		fmt.Println(b.Job, b.Task, "on", b.Node)
	}
	// Output:
	// single 0 on n0
}

// alphabet is a plugin that prefers the alphabetically first node.
type alphabet struct{}

func (alphabet) Open(s *scheduler.Session) {
	s.OrderNodes(func(_ *scheduler.Class, n *scheduler.NodeInfo) float64 { return -float64(n.Node.Name[0]) })
}

func ExampleWithPlugin() {
	s, err := scheduler.Open(&scheduler.Snapshot{
		Resources:  []string{"cpu"},
		GPU:        -1,
		Nodes:      []scheduler.Node{{Name: "z", Capacity: scheduler.Vector{4}}, {Name: "a", Capacity: scheduler.Vector{4}}},
		Queues:     []scheduler.Queue{{Name: "research"}},
		Namespaces: []scheduler.Namespace{{Name: "ada"}},
		Jobs: []scheduler.Job{{
			ID: "job", Queue: "research", Namespace: "ada",
			Tasks: []scheduler.Task{{ID: "0", Spec: &scheduler.Spec{Request: scheduler.Vector{2}}}},
		}},
	}, &scheduler.Policy{
		Actions: []string{"enqueue", "allocate"},
		Tiers:   [][]scheduler.PluginConfig{{{Name: "alphabet"}}},
	}, scheduler.WithPlugin("alphabet", func(scheduler.Args) scheduler.Plugin { return alphabet{} }))
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Run()
	for _, b := range s.Close().Binds {
		fmt.Println(b.Job, b.Task, "on", b.Node)
	}
	// Output:
	// job 0 on a
}
