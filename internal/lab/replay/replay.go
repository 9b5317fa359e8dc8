package replay

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Options configures a replay.
type Options struct {
	Policy *scheduler.Policy
	// Every is the time between sessions; 0 is a minute.
	Every time.Duration
	// Speed divides arrival times: at 24, a day of arrivals takes an hour. 0 is 1.
	Speed float64
	// Stay makes pods run forever, so that the cluster fills up.
	Stay bool
	// Weights are the weights of queues by class of service, or of namespaces; 0 is 1.
	Weights map[string]int
	// Saves makes evicted pods keep their work and continue after a restart of this duration; at 0 they start from
	// zero.
	Saves time.Duration
	// HalfLife makes the past GPU usage of namespaces count, decaying by half after each half-life (plugin usage); at 0
	// it does not count.
	HalfLife time.Duration
}

// Quantiles summarises waiting times, in seconds.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Shares are fractions of the cluster, from 0 to 1.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	GPU    float64 `json:"gpu"`
}

// Report is the result of a replay.
type Report struct {
	Nodes    int     `json:"nodes"`
	GPUs     int     `json:"gpus"`
	Pods     int     `json:"pods"`
	Placed   int     `json:"placed"`
	Unplaced int     `json:"unplaced"` // pods that still waited when no more pods came and nothing could change
	Evicted  int     `json:"evicted"`  // number of evictions
	Sessions int     `json:"sessions"`
	Hours    float64 `json:"hours"` // of virtual time
	// Wait is from arrival to the first start, of pods that started.
	Wait Quantiles `json:"waitSeconds"`
	// Allocation is the mean over time of all held resources; Peak the maximum.
	Allocation Shares `json:"allocation"`
	Peak       Shares `json:"peak"`
	// Fragmentation is the fraction of all GPUs that was idle and unusable for a pod drawn at random from the trace, as
	// a mean over time; PeakFragmentation is the maximum.
	Fragmentation     float64 `json:"fragmentation"`
	PeakFragmentation float64 `json:"peakFragmentation"`
	// ShareError is the difference between the GPUs of queues and their fair share by weight and demand. It is a mean
	// over queues and over the time in which any pod waited.
	ShareError float64 `json:"shareError"`
	// Lost is the fraction of GPU work that was lost by evictions.
	Lost   float64          `json:"lost"`
	Queues map[string]Queue `json:"queues"`
}

// Queue has the results of one queue.
type Queue struct {
	Pods   int       `json:"pods"`
	Placed int       `json:"placed"`
	Wait   Quantiles `json:"waitSeconds"`
	// GPU is its fraction of all GPUs, as a mean over time.
	GPU float64 `json:"gpu"`
}

// podState is a pod in the replay.
type podState struct {
	pod     *Pod
	job     scheduler.Job
	queue   int
	arrival float64
	started float64 // first start; negative if not started yet
	ends    float64
	running bool
	node    int
	done    float64 // seconds of saved work
	begun   float64 // time at which it got its place; works is the time at which it starts to work there
	works   float64
}

// replayer is a replay in progress.
type replayer struct {
	opt     Options
	snap    scheduler.Snapshot
	names   map[string]int // nodes
	pods    []podState
	byName  map[string]*podState
	active  []*podState // arrived and not finished
	ending  ends
	now     float64
	total   scheduler.Vector
	used    scheduler.Vector
	classes []class
	free    []nodeFree
	owners  []string // queues or namespaces whose shares are compared
	meter   meter
	report  *Report
}

var beginning = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return beginning.Add(time.Duration(seconds * float64(time.Second)))
}

// Run replays pods on nodes. It returns a *BadTrace (without file name) for a pod that fits no node even if empty,
// and an error if the policy is invalid.
func Run(ctx context.Context, nodes []Node, pods []Pod, opt Options) (*Report, error) {
	p, err := newPlayer(nodes, pods, opt)
	if err != nil {
		return nil, err
	}
	return p.report, p.run(ctx)
}

// run moves from one change to the next. Sessions run at multiples of Every while a pod waits.
func (p *replayer) run(ctx context.Context) error {
	every := p.opt.Every.Seconds()
	next, waiting, moved := 0, 0, false
	for {
		t := math.Inf(1)
		if next < len(p.pods) {
			t = p.pods[next].arrival
		}
		if len(p.ending) > 0 {
			t = min(t, p.ending[0].ends)
		}
		if moved && waiting > 0 {
			t = min(t, p.now+every) // evicted pods wait again
		}
		if math.IsInf(t, 1) {
			break
		}
		tick := max(math.Ceil(t/every)*every, p.now)
		p.meter.add(p, tick-p.now)
		p.now = tick
		for len(p.ending) > 0 && p.ending[0].ends <= tick {
			p.end(heap.Pop(&p.ending).(*podState)) //nolint:errcheck // only holds podState
		}
		for next < len(p.pods) && p.pods[next].arrival <= tick {
			p.active = append(p.active, &p.pods[next])
			next++
		}
		if waiting = p.waiting(); waiting == 0 {
			moved = false
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if moved, err = p.session(); err != nil {
			return err
		}
		waiting = p.waiting()
	}
	p.finish()
	return nil
}

func (p *replayer) waiting() int {
	n := 0
	for _, s := range p.active {
		if !s.running {
			n++
		}
	}
	return n
}

// session runs one session and reports whether it evicted any pod.
func (p *replayer) session() (evicted bool, err error) {
	p.report.Sessions++
	p.snap.Now = at(p.now)
	p.snap.Jobs = p.snap.Jobs[:0]
	for _, s := range p.active {
		p.snap.Jobs = append(p.snap.Jobs, s.job)
	}
	session, err := scheduler.Open(&p.snap, p.opt.Policy)
	if err != nil {
		return false, err
	}
	session.Run()
	r := session.Close()
	p.snap.Reservations = r.Reservations
	for _, e := range r.Evictions {
		p.evict(p.byName[e.Job])
	}
	for _, b := range r.Nominations {
		p.byName[b.Job].job.Tasks[0].Node = b.Node
	}
	for _, b := range r.Binds {
		p.bind(p.byName[b.Job], b)
	}
	return len(r.Evictions) > 0, nil
}

func (p *replayer) bind(s *podState, b scheduler.Bind) {
	s.node, s.running = p.names[b.Node], true
	t := &s.job.Tasks[0]
	t.State, t.Node, t.OnDevices, t.Since = scheduler.Running, b.Node, b.Devices, at(p.now)
	s.job.Phase = scheduler.Started
	if s.started < 0 {
		s.started = p.now
		p.report.Placed++
	}
	p.hold(s, +1)
	s.ends, s.begun, s.works = math.Inf(1), p.now, p.now
	if s.done > 0 {
		s.works += p.opt.Saves.Seconds()
	}
	if !p.opt.Stay {
		s.ends = s.works + s.pod.Seconds - s.done
		t.Ends = at(s.ends)
		heap.Push(&p.ending, s)
	}
}

// evict stops a pod, which waits again.
func (p *replayer) evict(s *podState) {
	if !s.running {
		return
	}
	p.report.Evicted++
	lost := p.now - s.begun
	if p.opt.Saves > 0 {
		s.done += max(0, p.now-s.works)
		lost = p.opt.Saves.Seconds() // the additional restart
	}
	p.meter.lost += float64(int64(s.pod.GPUs)*s.pod.Share) * lost
	p.hold(s, -1)
	if i := slices.Index(p.ending, s); i >= 0 {
		heap.Remove(&p.ending, i)
	}
	s.running = false
	s.job.Tasks[0] = scheduler.Task{ID: "0", Spec: s.job.Tasks[0].Spec}
}

func (p *replayer) end(s *podState) {
	p.hold(s, -1)
	s.running = false
	if i := slices.Index(p.active, s); i >= 0 {
		p.active = slices.Delete(p.active, i, i+1)
	}
}

// hold adds sign times the resources of a pod to the node and the totals.
func (p *replayer) hold(s *podState, sign int64) {
	n := &p.free[s.node]
	req := s.job.Tasks[0].Spec.Request
	n.cpu -= sign * req[0]
	n.memory -= sign * req[1]
	for _, d := range s.job.Tasks[0].OnDevices {
		n.gpu[d] -= sign * s.pod.Share
	}
	req[2] = int64(s.pod.GPUs) * s.pod.Share
	if sign < 0 {
		req = scheduler.Vector{}.Minus(req)
	}
	p.used = p.used.Plus(req)
	p.meter.held[s.queue] += req[2]
	n.stale = true
}

// ends is a heap of running pods, ordered by end time.
type ends []*podState

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, k int) bool { return cmp.Compare(e[i].ends, e[k].ends) < 0 }
func (e ends) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }

// Push implements heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(*podState)) } //nolint:errcheck // only holds podState

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (c class) String() string {
	return fmt.Sprintf("%d cpu_milli, %d memory_mib, %d × %d gpu_milli of %v", c.spec.Request[0], c.spec.Request[1],
		c.spec.Devices, c.spec.Share, c.models)
}
