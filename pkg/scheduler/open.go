package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Fault is an error in a snapshot.
type Fault struct {
	Field  string // for example nodes[3].devices
	Reason string
}

// Error returns "field: reason".
func (f *Fault) Error() string { return f.Field + ": " + f.Reason }

// Unwrap returns ErrInvalid.
func (f *Fault) Unwrap() error { return ErrInvalid }

func invalid(reason, field string, args ...any) error {
	return &Fault{Field: fmt.Sprintf(field, args...), Reason: reason}
}

// Option configures a session.
type Option func(*options)

type options struct {
	guards  bool
	plugins map[string]func(Args) Plugin
	actions map[string]Action
}

// WithPlugin adds a plugin that a policy may name, or replaces one.
func WithPlugin(name string, make func(Args) Plugin) Option { //nolint:revive // shadows make on purpose
	return func(o *options) { o.plugins[name] = make }
}

// WithAction adds an action that a policy may name, or replaces one: another way to allocate, for example, such as the
// flow of Firmament. Session.Waiting, Session.Score, Session.Limited and Session.Statement are for actions.
func WithAction(name string, a Action) Option {
	return func(o *options) { o.actions[name] = a }
}

// WithGuards enforces queue limits, guarantees and gang minimums under any policy: the limits of the proportion and
// capacity plugins and the readiness rule of the gang plugin, without their other functions. Use it for policies that
// other people write.
func WithGuards() Option { return func(o *options) { o.guards = true } }

// Open opens a session over a snapshot, which must not change while the session is in use. If the snapshot contradicts
// itself, Open returns a *Fault. All errors, also those about unknown names in the policy, wrap ErrInvalid.
func Open(snapshot *Snapshot, policy *Policy, opts ...Option) (*Session, error) {
	o := options{plugins: map[string]func(Args) Plugin{}, actions: builtinActions()}
	for _, b := range builtins() {
		o.plugins[b.name] = b.make
	}
	for _, f := range opts {
		f(&o)
	}
	s := &Session{
		Snapshot: snapshot, Now: snapshot.Now, policy: policy,
		queues: map[string]*QueueInfo{}, nodes: map[string]*NodeInfo{}, namespaces: map[string]*NamespaceInfo{},
		jobs: map[string]*JobInfo{}, specs: map[*Spec]string{}, classes: map[classKey]*Class{},
	}
	s.turnStatement.s = s
	for _, step := range []func() error{s.openNodes, s.openQueues, s.openNamespaces, s.openReservations, s.openJobs,
		s.openTasks, s.react} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, s.openPolicy(&o)
}

func (s *Session) openPolicy(o *options) error {
	s.fn.preemptable = make([][]VictimsFn, len(s.policy.Tiers))
	s.fn.reclaimable = make([][]VictimsFn, len(s.policy.Tiers))
	for i, tier := range s.policy.Tiers {
		s.tier = i
		for k, conf := range tier {
			f := o.plugins[conf.Name]
			if f == nil {
				return fmt.Errorf("policy: tiers[%d][%d]: %w: unknown plugin %s", i, k, ErrInvalid,
					quote(conf.Name))
			}
			s.opening = conf
			f(conf.Args).Open(s)
		}
	}
	if o.guards {
		s.opening = PluginConfig{Name: "capacity"}
		(&shares{}).guard(s)
		s.opening = PluginConfig{Name: "gang"}
		gang{}.guard(s)
	}
	for i, name := range s.policy.Actions {
		a := o.actions[name]
		if a == nil {
			return fmt.Errorf("policy: actions[%d]: %w: unknown action %s", i, ErrInvalid, quote(name))
		}
		s.actions = append(s.actions, namedAction{name, a})
	}
	for _, j := range s.Jobs {
		s.sortTasks(j)
	}
	return nil
}

func (s *Session) openNodes() error {
	snap := s.Snapshot
	if len(snap.Resources) > maxResources || snap.GPU >= len(snap.Resources) {
		return invalid(fmt.Sprintf("%d resources, with GPUs at index %d: at most %d can be counted",
			len(snap.Resources), snap.GPU, maxResources), "resources")
	}
	slab := make([]NodeInfo, len(snap.Nodes))
	s.Nodes, s.latest = make([]*NodeInfo, len(snap.Nodes)), make([]int32, len(snap.Nodes))
	order := make([]int, len(snap.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Compare(snap.Nodes[a].Topology, snap.Nodes[b].Topology)
	})
	for i, k := range order {
		node := &snap.Nodes[k]
		n := &slab[i]
		*n = NodeInfo{Index: i, Node: node, Idle: node.Capacity, reserved: -1}
		switch {
		case s.nodes[node.Name] != nil:
			return invalid("the name "+quote(node.Name)+" belongs to another node", "nodes[%d].name", k)
		case node.Devices < 0 || node.Devices > maxDevices:
			return invalid(fmt.Sprintf("%d GPUs: a node has at most %d", node.Devices, maxDevices),
				"nodes[%d].devices", k)
		case node.Devices > 0 && snap.GPU < 0:
			return invalid("GPUs are not among the resources", "nodes[%d].devices", k)
		}
		for r, v := range node.Capacity {
			if v < 0 {
				return invalid("a capacity is negative", "nodes[%d].capacity[%d]", k, r)
			}
		}
		if node.Devices > 0 {
			n.Idle[snap.GPU] = Whole * int64(node.Devices)
			n.devices = make([]device, node.Devices)
			for d := range n.devices {
				n.devices[d] = device{Whole, Whole}
			}
			n.count()
		}
		n.Future = n.Idle
		if !node.Closed {
			s.Total.Add(&n.Idle)
		}
		s.Nodes[i], s.nodes[node.Name] = n, n
	}
	return nil
}

func (s *Session) openQueues() error {
	snap := s.Snapshot
	slab := make([]QueueInfo, len(snap.Queues)+1)
	root := &slab[0]
	root.Queue = &Queue{}
	s.Queues = append(s.Queues, root)
	for i := range snap.Queues {
		q := &slab[i+1]
		q.Index, q.Queue = i+1, &snap.Queues[i]
		name := q.Queue.Name
		if name == "" || s.queues[name] != nil {
			return invalid("the name "+quote(name)+" is empty or belongs to another queue", "queues[%d].name", i)
		}
		s.queues[name] = q
		s.Queues = append(s.Queues, q)
	}
	for i, q := range s.Queues[1:] {
		q.Parent = root
		if p := q.Queue.Parent; p != "" {
			if q.Parent = s.queues[p]; q.Parent == nil {
				return invalid("missing queue "+quote(p), "queues[%d].parent", i)
			}
		}
		q.Parent.Children = append(q.Parent.Children, q)
	}
	for i, q := range s.Queues[1:] {
		for p := q.Parent; p != root; p = p.Parent {
			if q.Depth++; q.Depth > len(s.Queues) {
				return invalid("the queue is its own ancestor", "queues[%d].parent", i)
			}
		}
		q.Depth++
	}
	return nil
}

func (s *Session) openNamespaces() error {
	add := func(n *Namespace) {
		info := &NamespaceInfo{Index: len(s.Namespaces), Namespace: n}
		s.Namespaces = append(s.Namespaces, info)
		s.namespaces[n.Name] = info
	}
	for i := range s.Snapshot.Namespaces {
		n := &s.Snapshot.Namespaces[i]
		if s.namespaces[n.Name] != nil {
			return invalid("the name "+quote(n.Name)+" belongs to another namespace", "namespaces[%d].name", i)
		}
		add(n)
	}
	for i := range s.Snapshot.Jobs {
		if name := s.Snapshot.Jobs[i].Namespace; s.namespaces[name] == nil {
			add(&Namespace{Name: name})
		}
	}
	return nil
}

// openReservations takes over the reservations of unfinished jobs whose nodes are all available, and drops the others.
func (s *Session) openReservations() error {
	waits := map[string]bool{}
	for i := range s.Snapshot.Jobs {
		j := &s.Snapshot.Jobs[i]
		waits[j.ID] = !j.Phase.Ended()
	}
	for _, r := range s.Snapshot.Reservations {
		free := waits[r.Job] && !slices.ContainsFunc(r.Nodes, func(name string) bool {
			n := s.nodes[name]
			return n == nil || n.Node.Closed || n.reserved >= 0
		})
		if free {
			s.reserve(r)
		}
	}
	return nil
}

// reserve keeps nodes for a job.
func (s *Session) reserve(r Reservation) {
	number := int32(len(s.reservations)) //nolint:gosec // few
	s.reservations = append(s.reservations, r)
	for _, name := range r.Nodes {
		s.nodes[name].reserved = number
	}
}

func (s *Session) openJobs() error {
	snap := s.Snapshot
	slab := make([]JobInfo, len(snap.Jobs))
	tasks := 0
	for i := range snap.Jobs {
		tasks += len(snap.Jobs[i].Tasks)
	}
	infos := make([]TaskInfo, tasks)
	s.Jobs = make([]*JobInfo, len(snap.Jobs))
	for i := range snap.Jobs {
		job := &snap.Jobs[i]
		j := &slab[i]
		*j = JobInfo{Index: i, Job: job, Queue: s.queues[job.Queue], Namespace: s.namespaces[job.Namespace],
			Phase: job.Phase, priority: job.Priority, least: max(1, job.Min)}
		switch {
		case s.jobs[job.ID] != nil:
			return invalid("the ID "+quote(job.ID)+" belongs to another job", "jobs[%d].id", i)
		case j.Queue == nil:
			return invalid("missing queue "+quote(job.Queue), "jobs[%d].queue", i)
		case len(j.Queue.Children) > 0:
			return invalid("queue "+quote(job.Queue)+" has child queues: jobs belong in those", "jobs[%d].queue", i)
		case len(job.Roles) > math.MaxInt16:
			return invalid(fmt.Sprintf("%d roles: a job has at most %d", len(job.Roles), math.MaxInt16),
				"jobs[%d].roles", i)
		case job.Min < 0 || job.Max < 0 || job.Max > 0 && job.Max < job.Min:
			return invalid(fmt.Sprintf("from %d to %d members", job.Min, job.Max), "jobs[%d].max", i)
		}
		j.Queue.Jobs = append(j.Queue.Jobs, j)
		j.roles = make([]int, len(job.Roles))
		n := len(job.Tasks)
		j.Tasks, infos = infos[:n:n], infos[n:]
		s.Jobs[i], s.jobs[job.ID] = j, j
	}
	for i := range s.reservations {
		s.jobs[s.reservations[i].Job].reserved = &s.reservations[i]
	}
	return nil
}

func (s *Session) openTasks() error {
	if err := s.checkSpecs(); err != nil {
		return err
	}
	for _, j := range s.Jobs {
		number := int32(-1)
		if j.reserved != nil {
			number = int32(slices.IndexFunc(s.reservations, func(r Reservation) bool { return r.Job == j.Job.ID })) //nolint:gosec // few
		}
		var last *Spec
		var class *Class
		j.uniform = true
		for i := range j.Tasks {
			t := &j.Tasks[i]
			task := &j.Job.Tasks[i]
			if task.Spec != last {
				class, last = s.classOf(task.Spec, j, number), task.Spec
			}
			role := slices.IndexFunc(j.Job.Roles, func(r Role) bool { return r.Name == task.Spec.Role })
			*t = TaskInfo{
				Task: task, Job: j, Class: class, State: task.State,
				rank: int32(i), role: int16(role), //nolint:gosec // indices
			}
			j.uniform = j.uniform && class == j.Tasks[0].Class
			if err := s.openTask(t); err != nil {
				return fmt.Errorf("jobs[%d].tasks[%d].%w", j.Index, i, err)
			}
		}
	}
	return nil
}

// checkSpecs checks the specs of all tasks. A spec shared by consecutive tasks is checked once.
func (s *Session) checkSpecs() error {
	for _, j := range s.Jobs {
		var last *Spec
		for i := range j.Job.Tasks {
			spec := j.Job.Tasks[i].Spec
			if spec == nil {
				return invalid("the task has no spec", "jobs[%d].tasks[%d].spec", j.Index, i)
			}
			if spec == last {
				continue
			}
			last = spec
			if err := s.checkSpec(spec, j.Index, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) checkSpec(spec *Spec, job, task int) error {
	for r, v := range spec.Request {
		if v < 0 {
			return invalid("a request is negative", "jobs[%d].tasks[%d].request[%d]", job, task, r)
		}
	}
	switch {
	case spec.Devices < 0 || spec.Devices > maxDevices || spec.Share < 0 || spec.Share > Whole:
		return invalid(fmt.Sprintf("%d of each of %d GPUs: the maximum is %d of %d", spec.Share, spec.Devices, Whole,
			maxDevices), "jobs[%d].tasks[%d].devices", job, task)
	case spec.Devices > 0 && s.Snapshot.GPU < 0:
		return invalid("GPUs are not among the resources", "jobs[%d].tasks[%d].devices", job, task)
	}
	if len(spec.Near)+len(spec.Apart) > 0 {
		for _, n := range s.Nodes {
			if n.labels == nil {
				n.labels = map[Pair]labelCount{}
			}
		}
	}
	return nil
}

// openTask adds a task to its job, queue and node.
func (s *Session) openTask(t *TaskInfo) error {
	j := t.Job
	node := s.nodes[t.Task.Node]
	if t.State == Allocated || t.State == Pipelined {
		t.State = Pending // these states end with their session
	}
	j.count[t.State]++
	if t.role >= 0 && t.comes() {
		j.roles[t.role]++
	}
	switch {
	case t.State == Pending:
		t.nominated = node
		j.nominated = j.nominated || node != nil
		return nil
	case !t.State.Holds():
		return nil
	}
	if t.State != Releasing {
		t.charge(+1)
	}
	if node == nil {
		return nil // its node is not in the snapshot: it counts only for its queue
	}
	for _, d := range t.Task.OnDevices {
		if d < 0 || d >= len(node.devices) {
			return invalid(fmt.Sprintf("node %s has no GPU %d", quote(node.Node.Name), d), "onDevices")
		}
		t.devices |= 1 << d
	}
	if t.Class.devices > 0 && t.devices == 0 {
		t.devices = node.assume(t.Class)
	}
	s.held = true
	node.add(t)
	if t.evictable() {
		node.running = append(node.running, t)
	}
	return nil
}

// assume picks devices for a running task whose devices are unknown: the fullest devices that have room, or, if too
// few have, those with the most room.
func (n *NodeInfo) assume(c *Class) uint64 {
	order := make([]int, len(n.devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := n.devices[a].idle, n.devices[b].idle
		if fx, fy := x >= c.share, y >= c.share; fx != fy {
			if fx {
				return -1
			}
			return 1
		} else if !fx {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
	var on uint64
	for _, i := range order[:min(c.devices, len(order))] {
		on |= 1 << i
	}
	return on
}

func quote(s string) string { return strconv.Quote(s) }
