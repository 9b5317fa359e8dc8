package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// One in so many worlds has a crowd of jobs.
const (
	crowds = 0.04
	crowd  = 14
)

// populate draws what the people of a world want: queues, jobs, when they submit them, which ones they cancel.
func (u *users) populate() {
	r := u.w.rand.user
	// What some breaks break matters where many want the same quota.
	u.crowded = r.Chance(0.12) || slices.Contains([]Break{NoHold, Swinging, Asleep, Overtaking}, u.w.opt.Break)
	u.drawQueues()
	n := u.w.opt.Jobs
	if n == 0 && timeline.NewRandom(u.w.Seed, "crowds").Chance(crowds) {
		n = crowd // as if they had been asked for
	}
	if n == 0 {
		n = 1 + min(r.IntN(4), r.IntN(4))
		if u.crowded {
			n += 3 + r.IntN(4)
		}
	}
	for i := range n {
		j := u.plan(u.drawJob(i))
		u.w.After(r.Between(0, 90*time.Minute), func() {
			if body, err := native.Marshal(j.Spec); err == nil && r.Chance(0.25) {
				u.put(j.Spec.Name+".yaml", body, 1+r.IntN(2))
				return
			}
			u.submit(j)
		})
		if r.Chance(0.12) {
			u.w.After(r.Between(0, 4*time.Hour), func() { u.cancel(j, "changed their mind") })
		}
	}
	if r.Chance(0.2) {
		u.put("bad.yaml", []byte("apiVersion: tradewind/v1\nname: bad\ntasks: {a: {rum: true}}\n"), 2)
	}
}

// drawQueues sets quotas: of queues on their own, or of two that share a third's.
func (u *users) drawQueues() {
	r := u.w.rand.user
	var small, cpus record.QueueSettings
	if r.Chance(0.4) || u.crowded {
		u.setQueue("lab", record.QueueSettings{MaxVCPU: float64(8 * (1 + r.IntN(6))), MaxRunning: r.IntN(6)})
		small.Parent, cpus.Parent = "lab", "lab"
		small.Weight, cpus.Weight = 1+r.IntN(3), r.IntN(3)
		if r.Chance(0.3) {
			cpus.GuaranteedVCPU = 4
		}
	}
	small.Preempt, cpus.Preempt = r.Chance(0.3), r.Chance(0.3)
	if r.Chance(0.5) {
		small.MaxRunning = 1 + r.IntN(4)
	}
	if r.Chance(0.5) {
		cpus.MaxVCPU = float64(4 * (1 + r.IntN(12)))
	}
	for _, q := range []struct {
		name     string
		settings record.QueueSettings
	}{{"small", small}, {"cpus", cpus}} {
		if q.settings != (record.QueueSettings{}) {
			u.setQueue(q.name, q.settings)
		}
	}
}

// drawJob draws a job.
func (u *users) drawJob(n int) *dag.Job {
	r := u.w.rand.user
	j := &dag.Job{Name: fmt.Sprintf("job%d", n), Objective: dag.MinimizeCost, Infeasible: dag.Fail, Format: dag.Native}
	if r.Chance(0.2) {
		j.Objective = dag.MinimizeMakespan
	}
	if r.Chance(0.6) {
		j.Infeasible = dag.Wait
	}
	if !u.w.onTime || r.Chance(0.2) { // else its deadline may be one that has to be kept
		j.Queue = timeline.Pick(r, []string{"", "", "small", "cpus"})
	}
	if r.Chance(0.3) {
		j.Priority = r.IntN(7) - 3
	}
	drawShape(r, j)
	for i := range j.Tasks {
		drawTask(r, &j.Tasks[i])
	}
	drawGang(u.w.rand.gang, j)
	drawJoining(u.w.rand.join, j)
	if u.crowded { // many who want the same, and nothing else that would hold them up
		j.Queue, j.Priority = timeline.Pick(r, []string{"small", "cpus", "cpus"}), 0
		return j
	}
	drawLimits(r, j, u.w.onTime)
	return j
}

// drawShape gives a job its tasks and edges.
func drawShape(r timeline.Random, j *dag.Job) {
	edge := func(from, to int) { j.Edges = append(j.Edges, dag.Edge{From: from, To: to, Data: dag.GiB(r.IntN(20))}) }
	tasks := func(n int) {
		for i := range n {
			j.Tasks = append(j.Tasks, dag.Task{Name: fmt.Sprintf("t%d", i), Nodes: 1})
		}
	}
	switch shape := r.IntN(100); {
	case shape < 15: // one task
		tasks(1)
	case shape < 40: // a chain
		tasks(2 + r.IntN(4))
		for i := 1; i < len(j.Tasks); i++ {
			edge(i-1, i)
		}
	case shape < 65: // fork and join
		tasks(3 + r.IntN(6))
		for i := 1; i < len(j.Tasks)-1; i++ {
			edge(0, i)
			edge(i, len(j.Tasks)-1)
		}
	case shape < 99: // layers
		tasks(4 + r.IntN(7))
		for i := 1; i < len(j.Tasks); i++ {
			for p := max(0, i-4); p < i; p++ {
				if r.Chance(0.35) {
					edge(p, i)
				}
			}
		}
	default: // wider than one transaction
		tasks(64 + r.IntN(16))
		for i := 1; i < len(j.Tasks); i += 9 {
			edge(0, i)
		}
	}
	j.MergeEdges()
}

// drawGang puts tasks that wait for the same ones into a gang.
func drawGang(r timeline.Random, j *dag.Job) {
	if !r.Chance(0.3) {
		return
	}
	g := j.Graph()
	together := map[string][]int{}
	var order []string
	for i := range j.Tasks {
		key := fmt.Sprint(g.Parents(i))
		if together[key] = append(together[key], i); len(together[key]) == 2 {
			order = append(order, key)
		}
	}
	if len(order) == 0 {
		return
	}
	all := together[timeline.Pick(r, order)]
	members := all[:2+r.IntN(min(len(all), dag.MaxGang)-1)]
	for _, i := range members {
		j.Tasks[i].Gang = "gang"
	}
	if r.Chance(0.3) { // the others are done with it
		chief := &j.Tasks[timeline.Pick(r, members)]
		chief.On = []dag.Reaction{{Event: dag.TaskCompleted, Action: dag.Complete}}
	}
}

// drawJoining adds machines that join a role of a gang while it runs.
func drawJoining(r timeline.Random, j *dag.Job) {
	gangs := j.Gangs()["gang"]
	if len(gangs) == 0 || !r.Chance(0.4) {
		return
	}
	lead := timeline.Pick(r, gangs)
	edges := slices.Clone(j.Edges)
	for range 1 + r.IntN(3) {
		t := j.Tasks[lead]
		t.Name, t.Gang, t.Joins, t.Role, t.On = fmt.Sprintf("t%d", len(j.Tasks)), "", t.Gang, t.RoleOf(), nil
		for _, e := range edges {
			if e.To == lead {
				j.Edges = append(j.Edges, dag.Edge{From: e.From, To: len(j.Tasks), Data: e.Data})
			}
		}
		j.Tasks = append(j.Tasks, t)
	}
	j.Tasks[lead].Role = j.Tasks[lead].RoleOf()
}

func drawTask(r timeline.Random, t *dag.Task) {
	span := r.Spread(2*time.Minute, 90*time.Minute)
	if r.Chance(0.2) {
		t.Nodes = 2 + r.IntN(3)
	}
	res := dag.Resources{}
	switch r.IntN(10) {
	case 0:
		res.Market = dag.MarketOnDemand
	case 1:
		res.Market = dag.MarketSpot
	case 2:
		res.Cloud = timeline.Pick(r, weather.CloudNames())
	case 3:
		res.CPUs = dag.Range{Min: 8}
	}
	t.Resources = []dag.Resources{res}
	if r.Chance(0.3) {
		t.Recorded = span
		t.Time.Default = span
	} else {
		t.Run = "work"
		t.Time.Default = span
		if r.Chance(0.3) {
			t.Time.On = map[string]time.Duration{}
			for _, big := range weather.BigTypes() {
				t.Time.On[big] = span / 3
			}
		}
		t.Retries = r.IntN(3)
	}
	if r.Chance(0.6) {
		t.Checkpoint = &dag.Checkpoint{Every: r.Spread(3*time.Minute, 30*time.Minute), Path: "ckpt/"}
		if r.Chance(0.2) {
			t.Checkpoint.Every = 0
		}
	}
	if r.Chance(0.5) {
		t.Outputs = []dag.Output{{Name: "out", Size: dag.GiB(1 + r.IntN(5))}}
	}
}

// drawLimits gives some jobs a deadline, and some a budget.
func drawLimits(r timeline.Random, j *dag.Job, onTime bool) {
	if onTime && r.Chance(0.6) {
		j.Deadline = time.Duration(float64(planner.Guarantee(j))*r.Uniform(1, 3)).Round(time.Second) + time.Second
		return
	}
	if r.Chance(0.5) {
		j.Deadline = time.Duration(float64(planner.Guarantee(j)) * r.Uniform(0.8, 4)).Round(time.Second)
	}
	if r.Chance(0.4) {
		usd := 0.0
		for i := range j.Tasks {
			usd += j.Tasks[i].Time.Default.Hours() * 0.07 * float64(j.Tasks[i].Nodes)
		}
		j.Budget = dag.USD(usd * r.Uniform(0.9, 4))
	}
}
