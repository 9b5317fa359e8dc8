package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// class is a set of pods with the same request; count is their number.
type class struct {
	spec   *scheduler.Spec
	models []string
	count  int
}

// nodeFree is the free capacity of a node.
type nodeFree struct {
	cpu, memory int64
	gpu         []int64
	model       string
	stale       bool
	fragment    float64 // thousandths of GPUs
}

func newPlayer(nodes []Node, pods []Pod, opt Options) (*replayer, error) {
	if opt.Every <= 0 {
		opt.Every = time.Minute
	}
	if opt.Speed == 0 {
		opt.Speed = 1
	}
	if !(opt.Speed > 0) || math.IsInf(opt.Speed, 0) {
		return nil, fmt.Errorf("speed: %v: %w", opt.Speed, scheduler.ErrInvalid)
	}
	if opt.Policy == nil {
		opt.Policy = scheduler.DefaultPolicy()
	}
	p := &replayer{opt: opt, names: map[string]int{}, byName: map[string]*podState{},
		report: &Report{Nodes: len(nodes), Pods: len(pods), Queues: map[string]Queue{}}}
	p.snap = scheduler.Snapshot{Resources: []string{"cpu", "memory", "gpu"}, GPU: 2}
	p.addNodes(nodes)
	p.addQueues(pods)
	queues := p.addOwners(pods)
	if err := p.addPods(pods, queues); err != nil {
		return nil, err
	}
	p.meter = newMeter(p)
	return p, nil
}

func (p *replayer) addNodes(nodes []Node) {
	for i, n := range nodes {
		p.snap.Nodes = append(p.snap.Nodes, scheduler.Node{
			Name: n.Name, Capacity: scheduler.Vector{n.CPU, n.Memory}, Devices: n.GPUs,
			Labels: map[string]string{"model": n.Model},
		})
		p.names[n.Name] = i
		f := nodeFree{cpu: n.CPU, memory: n.Memory, model: n.Model, gpu: make([]int64, n.GPUs), stale: true}
		for d := range f.gpu {
			f.gpu[d] = scheduler.Whole
		}
		p.free = append(p.free, f)
		p.report.GPUs += n.GPUs
		p.total = p.total.Plus(scheduler.Vector{n.CPU, n.Memory, int64(n.GPUs) * scheduler.Whole})
	}
}

// owner returns the namespace of a pod or, if it has none, its queue: shares are compared between owners.
func (pod *Pod) owner() string { return cmp.Or(pod.Namespace, pod.Class) }

// addOwners lists the owners of all pods and returns their indices.
func (p *replayer) addOwners(pods []Pod) map[string]int {
	for i := range pods {
		if o := pods[i].owner(); !slices.Contains(p.owners, o) {
			p.owners = append(p.owners, o)
		}
	}
	slices.Sort(p.owners)
	index := map[string]int{}
	named := slices.ContainsFunc(pods, func(pod Pod) bool { return pod.Namespace != "" })
	for i, name := range p.owners {
		if index[name] = i; named {
			p.snap.Namespaces = append(p.snap.Namespaces, scheduler.Namespace{Name: name, Weight: p.opt.Weights[name]})
		}
	}
	return index
}

// addQueues adds a queue for each class of service.
func (p *replayer) addQueues(pods []Pod) {
	var names []string
	for i := range pods {
		if c := pods[i].Class; !slices.Contains(names, c) {
			names = append(names, c)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		p.snap.Queues = append(p.snap.Queues, scheduler.Queue{Name: name, Weight: p.opt.Weights[name]})
	}
}

func (p *replayer) addPods(pods []Pod, queues map[string]int) error {
	known := map[string]int{}
	p.pods = make([]podState, len(pods))
	for i := range pods {
		pod := &pods[i]
		key := fmt.Sprint(pod.CPU, pod.Memory, pod.GPUs, pod.Share, pod.Models)
		c, ok := known[key]
		if !ok {
			c = len(p.classes)
			known[key] = c
			p.classes = append(p.classes, newClass(pod))
			if field, why := p.impossible(p.classes[c]); why != "" {
				return &BadTrace{Row: pod.Row, Field: field, Reason: pod.Name + " fits no node: " + why}
			}
		}
		p.classes[c].count++
		p.pods[i] = podState{pod: pod, queue: queues[pod.owner()], arrival: pod.Created / p.opt.Speed, started: -1}
		s := &p.pods[i]
		s.job = scheduler.Job{
			ID: pod.Name, Queue: pod.Class, Namespace: pod.Namespace, Created: at(s.arrival), Min: 1,
			Duration: time.Duration(pod.Seconds * float64(time.Second)),
			Tasks:    []scheduler.Task{{ID: "0", Spec: p.classes[c].spec}}, Phase: scheduler.Inqueue,
		}
		if p.byName[pod.Name] != nil {
			return &BadTrace{Row: pod.Row, Field: "name", Reason: fmt.Sprintf("another pod has the name %q", pod.Name)}
		}
		p.byName[pod.Name] = s
	}
	return nil
}

func newClass(pod *Pod) class {
	spec := &scheduler.Spec{Request: scheduler.Vector{pod.CPU, pod.Memory}, Devices: pod.GPUs, Share: pod.Share}
	if len(pod.Models) > 0 {
		spec.Affinity = []scheduler.Term{{Key: "model", Op: scheduler.In, Values: pod.Models}}
	}
	return class{spec: spec, models: pod.Models}
}

// impossible returns why no node, even if empty, could take a pod of the class, and the column that causes it.
func (p *replayer) impossible(c class) (field, why string) {
	best := -1
	fields := []string{"gpu_spec", "num_gpu", "cpu_milli", "memory_mib"}
	for i := range p.free {
		n := &p.free[i]
		passed := 0
		for _, ok := range []bool{
			len(c.models) == 0 || slices.Contains(c.models, n.model), len(n.gpu) >= c.spec.Devices,
			n.cpu >= c.spec.Request[0], n.memory >= c.spec.Request[1],
		} {
			if !ok {
				break
			}
			passed++
		}
		if passed == len(fields) {
			return "", ""
		}
		best = max(best, passed)
	}
	return fields[max(best, 0)], "it needs " + strings.TrimSuffix(c.String(), " of []")
}
