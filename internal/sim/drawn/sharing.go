package drawn

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Chunked adds an array of short members that share machines to most jobs, or (always) to all. Some members wait for a
// task, and some fail.
func Chunked(r timeline.Random, j *dag.Job, always bool) {
	if !r.Chance(0.7) && !always {
		return
	}
	t := dag.Task{Name: "c", Nodes: 1, Run: "work", Share: dag.ShareJob, Resources: []dag.Resources{{}}}
	t.Time.Default, t.Retries = r.Between(10*time.Second, time.Minute), r.IntN(3)
	t.Resources[0].CPUs.Min = timeline.Pick(r, []float64{0, 1, 2})
	n := 4 + r.IntN(60)
	after := len(j.Tasks) - 1
	first := addArray(j, dag.Array{Name: "c", Size: n, AllowFailures: r.IntN(4)}, t)
	if r.Chance(0.3) && j.Tasks[after].Joins == "" && j.Tasks[after].Gang == "" {
		for k := range n {
			j.Edges = append(j.Edges, dag.Edge{From: after, To: first + k})
		}
		j.MergeEdges()
	}
}

// Sharing makes tasks of most jobs, or (always) of all, share machines. Some of these jobs get many short tasks, and
// some have two groups.
func Sharing(r timeline.Random, j *dag.Job, always bool) {
	if !r.Chance(0.7) && !always {
		return
	}
	if r.Chance(0.5) || always {
		first := len(j.Tasks) - 1
		for range 3 + r.IntN(18) {
			span := r.Spread(30*time.Second, 15*time.Minute)
			t := dag.Task{Name: fmt.Sprintf("t%d", len(j.Tasks)), Nodes: 1, Run: "work",
				Time: dag.TimeEstimate{Default: span}, Retries: r.IntN(3), Resources: []dag.Resources{{}}}
			if r.Chance(0.3) && j.Tasks[first].Joins == "" && j.Tasks[first].Gang == "" {
				j.Edges = append(j.Edges, dag.Edge{From: first, To: len(j.Tasks), Data: dag.GiB(r.IntN(3))})
			}
			j.Tasks = append(j.Tasks, t)
		}
		j.MergeEdges()
	}
	var res dag.Resources
	switch r.IntN(4) {
	case 0:
		res.Market = dag.MarketOnDemand
	case 1:
		res.Market = dag.MarketSpot
	}
	two := r.Chance(0.25)
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Gang != "" || t.Joins != "" || r.Chance(0.15) {
			continue
		}
		of := res
		if two && r.Chance(0.4) {
			of.Cloud = timeline.Pick(r, weather.CloudNames()[:2])
		}
		of.CPUs.Min = timeline.Pick(r, []float64{0, 0.5, 1, 2, 3})
		of.Memory.Min = timeline.Pick(r, []float64{0, 0, 1, 6, 10})
		t.Share, t.Nodes, t.Resources = dag.ShareJob, 1, []dag.Resources{of}
	}
}
