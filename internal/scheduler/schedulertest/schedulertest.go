// Package schedulertest generates snapshots of any size for benchmarks and tests of the scheduler: gangs and elastic
// jobs with many request shapes in weighted queues.
package schedulertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Options sets the size of the snapshot.
type Options struct {
	Nodes, Tasks int
	Queues       int // 0 is 20
	Shapes       int // different requests; 0 is 32
	// Full is the total request of all tasks relative to the capacity; 0 is 0.8.
	Full float64
	Seed uint64
}

// New returns a snapshot.
func New(o Options) *scheduler.Snapshot {
	if o.Queues == 0 {
		o.Queues = 20
	}
	if o.Shapes == 0 {
		o.Shapes = 32
	}
	if o.Full == 0 {
		o.Full = 0.8
	}
	r := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // reproducible
	s := &scheduler.Snapshot{Now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC),
		Resources: []string{"cpu", "memory", "gpu"}, GPU: 2}
	for i := range o.Queues {
		s.Queues = append(s.Queues, scheduler.Queue{Name: fmt.Sprint("q", i), Weight: 1 + i%4})
	}
	for i := range o.Queues / 2 {
		s.Namespaces = append(s.Namespaces, scheduler.Namespace{Name: fmt.Sprint("u", i), Weight: 1 + i%3})
	}
	specs := make([]*scheduler.Spec, o.Shapes)
	for i := range specs {
		specs[i] = &scheduler.Spec{Request: scheduler.Vector{int64(500 * (1 + r.IntN(16))),
			int64(1024 * (1 + r.IntN(32)))}}
		if i%4 == 0 {
			specs[i].Devices, specs[i].Share = 1, int64(100*(1+r.IntN(10)))
		}
		if i%5 == 0 {
			specs[i].Selector = map[string]string{"disk": "ssd"}
		}
		if i%7 == 0 {
			specs[i].Tolerates = []scheduler.Toleration{{Key: "dedicated"}}
		}
	}
	var want scheduler.Vector
	for made := 0; made < o.Tasks; {
		n := min(1+r.IntN(16), o.Tasks-made)
		j := scheduler.Job{
			ID: fmt.Sprint("j", len(s.Jobs)), Queue: fmt.Sprint("q", r.IntN(o.Queues)),
			Namespace: fmt.Sprint("u", r.IntN(max(1, o.Queues/2))), Priority: r.IntN(3),
			Created: s.Now.Add(-time.Duration(r.IntN(3600)) * time.Second), Phase: scheduler.Inqueue, Min: n,
		}
		if r.IntN(4) == 0 {
			j.Min = 1 // elastic
		}
		spec := specs[r.IntN(len(specs))]
		for i := range n {
			j.Tasks = append(j.Tasks, scheduler.Task{ID: fmt.Sprint(i), Spec: spec})
			want = want.Plus(spec.Request)
			want[2] += int64(spec.Devices) * spec.Share
		}
		made += n
		s.Jobs = append(s.Jobs, j)
	}
	each := func(i int) int64 { return int64(float64(want[i])/o.Full/float64(o.Nodes)) + 1 }
	for i := range o.Nodes {
		n := scheduler.Node{
			Name: fmt.Sprint("n", i), Capacity: scheduler.Vector{max(each(0), 16000), max(each(1), 32<<10)},
			Labels: map[string]string{}, Topology: []string{fmt.Sprint("zone", i%4), fmt.Sprintf("rack%03d", i/20)},
		}
		if i%2 == 0 {
			n.Labels["disk"] = "ssd"
		}
		if i%3 == 0 {
			n.Devices = int(min(64, (3*each(2)+999)/1000))
		}
		if i%10 == 0 {
			n.Taints = []scheduler.Taint{{Key: "dedicated"}}
		}
		if i%20 == 1 { // ignored without plugin tdm
			n.Window = "night"
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}
