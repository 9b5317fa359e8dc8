package drawn

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Service draws a job that is a service with several replicas. Some are on spot machines, spread, start after another
// task, or have a budget.
func Service(r timeline.Random, n int) *dag.Job {
	j := &dag.Job{Name: fmt.Sprintf("service%d", n), Objective: dag.MinimizeCost, Infeasible: dag.Wait,
		Format: dag.Native}
	s := &dag.Service{Of: "web", Port: 8080, Readiness: dag.Readiness{Path: "/health"}}
	if r.Chance(0.5) {
		s.Readiness.InitialDelay = r.Between(10*time.Minute, time.Hour).Round(time.Second)
	}
	res := dag.Resources{}
	switch r.IntN(4) {
	case 0:
		res.Market = dag.MarketOnDemand
	case 1, 2:
		res.Market = dag.MarketSpot
	}
	var names []string
	for i := range 1 + r.IntN(3) {
		t := dag.Task{Name: fmt.Sprintf("web.%d", i), Run: "serve", Nodes: 1, Resources: []dag.Resources{res},
			Service: s}
		if r.Chance(0.1) {
			t.Nodes = 2
		}
		j.Tasks, names = append(j.Tasks, t), append(names, t.Name)
	}
	if len(names) > 1 && r.Chance(0.3) {
		j.Placement = []dag.Placement{{Spread: dag.LevelRegion, Max: 2, Of: names}}
	}
	if r.Chance(0.3) {
		t := dag.Task{Name: "before", Run: "work", Nodes: 1, Resources: []dag.Resources{{}}}
		t.Time.Default = r.Spread(2*time.Minute, 30*time.Minute)
		for i := range j.Tasks {
			j.Edges = append(j.Edges, dag.Edge{From: len(j.Tasks), To: i})
		}
		j.Tasks = append(j.Tasks, t)
		j.MergeEdges()
	}
	if r.Chance(0.3) {
		j.Budget = dag.USD(0.07 * float64(len(j.Tasks)) * r.Uniform(1.5, 10))
	}
	return j
}

// Updated draws a new version of a service; some versions fail to start.
func Updated(r timeline.Random, j *dag.Job) *dag.Job {
	next := *j
	next.Tasks = slices.Clone(j.Tasks)
	env := map[string]string{"VERSION": fmt.Sprint(r.IntN(1000))}
	if r.Chance(0.3) {
		env[Bad] = "yes"
	}
	for i := range next.Tasks {
		if next.Tasks[i].Service != nil {
			next.Tasks[i].Env = env
		}
	}
	return &next
}

// Bad is the environment variable of a version of a service that fails to start.
const Bad = "BAD"
