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

// Options say how to replay.
type Options struct {
	Policy *scheduler.Policy
	// Every is the time between sessions; 0 is a minute.
	Every time.Duration
	// Speed divides the times at which pods come: what took a day takes an hour at 24. 0 is 1.
	Speed float64
	// Stay has pods never end, so that the cluster fills.
	Stay bool
	// Weights are those of queues, by class; 0 is 1.
	Weights map[string]int
	// Saves has evicted pods save their work, and go on after a start that takes so long; 0 has them begin again.
	Saves time.Duration
	// HalfLife has the GPUs that namespaces have held count, half of it after each half-life (plugin usage); 0 has it
	// not known.
	HalfLife time.Duration
}

// Quantiles are of waiting times, in seconds.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Shares are parts of the cluster, from 0 to 1.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	GPU    float64 `json:"gpu"`
}

// Report is what came of it.
type Report struct {
	Nodes    int     `json:"nodes"`
	GPUs     int     `json:"gpus"`
	Pods     int     `json:"pods"`
	Placed   int     `json:"placed"`
	Unplaced int     `json:"unplaced"` // waited when the last pod had come and nothing could change any more
	Evicted  int     `json:"evicted"`  // times that a pod lost its place
	Sessions int     `json:"sessions"`
	Hours    float64 `json:"hours"` // of virtual time
	// Wait is from coming to the first start, of pods that started.
	Wait Quantiles `json:"waitSeconds"`
	// Allocation is what pods held, as a mean over time; Peak the most.
	Allocation Shares `json:"allocation"`
	Peak       Shares `json:"peak"`
	// Fragmentation is the part of all GPUs that was idle where a pod drawn from the trace could not use it, as a mean
	// over time; PeakFragmentation the most.
	Fragmentation     float64 `json:"fragmentation"`
	PeakFragmentation float64 `json:"peakFragmentation"`
	// ShareError is by how much queues missed the part of the GPUs that their weights give them of what they wanted, as
	// a mean over queues and the time in which any pod waited.
	ShareError float64 `json:"shareError"`
	// Lost is the part of the GPUs' work that was thrown away, as evicted pods begin again.
	Lost   float64          `json:"lost"`
	Queues map[string]Queue `json:"queues"`
}

// Queue is what a queue had.
type Queue struct {
	Pods   int       `json:"pods"`
	Placed int       `json:"placed"`
	Wait   Quantiles `json:"waitSeconds"`
	// GPU is its part of all GPUs, as a mean over time.
	GPU float64 `json:"gpu"`
}

// podState is a pod in the replay.
type podState struct {
	pod     *Pod
	job     scheduler.Job
	queue   int
	arrival float64
	started float64 // first; negative before
	ends    float64
	running bool
	node    int
	done    float64 // seconds of work that is saved
	begun   float64 // when it has its place, and from when on it works
	works   float64
}

// player is a replay under way.
type player struct {
	opt     Options
	snap    scheduler.Snapshot
	names   map[string]int // nodes
	pods    []podState
	byName  map[string]*podState
	active  []*podState // come and not over
	ending  ends
	now     float64
	total   scheduler.Vector
	used    scheduler.Vector
	classes []class
	free    []nodeFree
	owners  []string // between whom shares are compared
	meter   meter
	report  *Report
}

var beginning = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return beginning.Add(time.Duration(seconds * float64(time.Second)))
}

// Run replays pods on nodes. It fails with a *BadTrace (without its file) for a pod that no node could ever take, and
// with what is wrong with the policy.
func Run(ctx context.Context, nodes []Node, pods []Pod, opt Options) (*Report, error) {
	p, err := newPlayer(nodes, pods, opt)
	if err != nil {
		return nil, err
	}
	return p.report, p.play(ctx)
}

// play moves from one change to the next; sessions are at multiples of Every, when a pod waits.
func (p *player) play(ctx context.Context) error {
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
			t = min(t, p.now+every) // those that were evicted wait again
		}
		if math.IsInf(t, 1) {
			break
		}
		tick := max(math.Ceil(t/every)*every, p.now)
		p.meter.pass(p, tick-p.now)
		p.now = tick
		for len(p.ending) > 0 && p.ending[0].ends <= tick {
			p.end(heap.Pop(&p.ending).(*podState)) //nolint:errcheck // it holds nothing else
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

func (p *player) waiting() int {
	n := 0
	for _, s := range p.active {
		if !s.running {
			n++
		}
	}
	return n
}

// session runs one, and says whether anybody lost its place.
func (p *player) session() (evicted bool, err error) {
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

func (p *player) bind(s *podState, b scheduler.Bind) {
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

// evict has a pod begin again, elsewhere and later.
func (p *player) evict(s *podState) {
	if !s.running {
		return
	}
	p.report.Evicted++
	lost := p.now - s.begun
	if p.opt.Saves > 0 {
		s.done += max(0, p.now-s.works)
		lost = p.opt.Saves.Seconds() // of the start that it takes more
	}
	p.meter.lost += float64(int64(s.pod.GPUs)*s.pod.Share) * lost
	p.hold(s, -1)
	if i := slices.Index(p.ending, s); i >= 0 {
		heap.Remove(&p.ending, i)
	}
	s.running = false
	s.job.Tasks[0] = scheduler.Task{ID: "0", Spec: s.job.Tasks[0].Spec}
}

func (p *player) end(s *podState) {
	p.hold(s, -1)
	s.running = false
	if i := slices.Index(p.active, s); i >= 0 {
		p.active = slices.Delete(p.active, i, i+1)
	}
}

// hold counts what a pod takes of its node, or gives back.
func (p *player) hold(s *podState, sign int64) {
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

// ends are running pods, those that end first in front.
type ends []*podState

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, k int) bool { return cmp.Compare(e[i].ends, e[k].ends) < 0 }
func (e ends) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }

// Push implements heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(*podState)) } //nolint:errcheck // it holds nothing else

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
