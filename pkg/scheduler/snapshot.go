package scheduler

import "time"

// Snapshot is the cluster at one moment, as the caller sees it.
type Snapshot struct {
	Now time.Time
	// Resources names the entries of vectors, at most 8.
	Resources []string
	// Units is the number of vector units in one unit of messages: 1000 if vectors count thousandths. 0 means 1.
	Units Vector
	// GPU is the index of GPUs in vectors, which count them in thousandths; negative if there are none. For this
	// resource a node's capacity is Whole for each device, and a task's request is Share on each of Devices different
	// devices. Open computes both from Node.Devices, Spec.Devices and Spec.Share.
	GPU        int
	Nodes      []Node
	Queues     []Queue
	Namespaces []Namespace
	Jobs       []Job
	// Reservations are those of earlier sessions.
	Reservations []Reservation
}

// Node is a machine.
type Node struct {
	Name     string
	Capacity Vector
	Devices  int // GPUs
	Labels   map[string]string
	Taints   []Taint
	// Topology is the node's location, widest level first: zone, rack. Nodes with a common prefix are close.
	Topology []string
	// Window names the time window (plugin tdm) in which the node is available; empty: always.
	Window string
	// Closed nodes get no new tasks, because they are being drained or do not respond.
	Closed bool
}

// Taint keeps tasks that do not tolerate it off a node. A soft taint only makes other nodes preferred.
type Taint struct {
	Key, Value string
	Soft       bool
}

// Queue holds waiting jobs and has a share of the cluster.
type Queue struct {
	Name   string
	Parent string // empty: the cluster itself
	Weight int    // relative to siblings; 0 is 1
	// Priority orders siblings before their shares do.
	Priority int
	// Guarantee is kept for the queue even if it does not use it. Deserved is the amount that the queue may reclaim
	// from others. Capability is the maximum that it may hold.
	Guarantee  Vector
	Deserved   Limit
	Capability Limit
	// Closed queues start nothing new.
	Closed bool
	// Usage is the queue's use over time.
	Usage Usage
}

// Namespace is a user or a group of users. Its jobs may be in any queue.
type Namespace struct {
	Name   string
	Weight int // 0 is 1
	Usage  Usage
}

// Job is a group of tasks and their common requirements.
type Job struct {
	ID, Queue, Namespace string
	Priority             int
	Created              time.Time
	Phase                Phase
	// Min members start together or not at all; 0 is one. At most Max members run; 0 is all.
	Min, Max int
	// Roles add minimums for members by Spec.Role.
	Roles []Role
	// Batch jobs can not continue without any of their members: if one is evicted, all are.
	Batch bool
	// OnFailure is the reaction to a failed member. Restarts counts the restarts so far, of at most MaxRestarts.
	OnFailure             Reaction
	Restarts, MaxRestarts int
	// After lists jobs that must finish before this one is admitted.
	After []Dependency
	// Kept jobs are never evicted.
	Kept bool
	// Spares are the IDs of jobs whose tasks must not be evicted for this job.
	Spares []string
	// Duration is the expected run time of a member; 0 means unknown.
	Duration time.Duration
	// Close requests members close together. Its Depth is the number of Node.Topology levels that they share: 1 is
	// the zone, 2 the rack.
	Close Closeness
	// MaxWait is the time after Created by which the job should have started; with 0, the policy decides.
	MaxWait time.Duration
	// WaitingSince is since when a started job has waited for members that it should have; zero if the wait does not
	// matter.
	WaitingSince time.Time
	// Stranded is since when it has run with fewer members than its minimum; zero if it has enough.
	Stranded time.Time
	Tasks    []Task
}

// Role is a kind of member of a job, with the minimum number of members.
type Role struct {
	Name string
	Min  int
}

// Dependency is a job that must finish first.
type Dependency struct {
	Job string
	// OnFailure is the reaction to a failure of the other job: Ignore starts this job nevertheless, and Abort makes
	// it fail, too.
	OnFailure Reaction
}

// Closeness states how close together the members of a gang must be.
type Closeness struct {
	Depth    int  // shared topology levels; 0 asks for nothing
	Required bool // false: best effort
}

// Task is a member of a job. Tasks that share a Spec pointer are cheaper to schedule.
type Task struct {
	ID    string
	Spec  *Spec
	State State
	// Node is the node on which the task holds resources. For a pending task, it is the node on which an earlier
	// session made room for it.
	Node string
	// OnDevices are the node's GPUs of which the task holds a share.
	OnDevices []int
	Since     time.Time // start of the current state; zero is unknown
	Ends      time.Time // expected end; zero is unknown
}

// Spec is the requirements of a task on a node.
type Spec struct {
	Request Vector
	// Devices is the number of different GPUs; Share is needed on each, in thousandths, 0 is Whole.
	Devices int
	Share   int64
	Role    string
	// Priority orders the tasks of a job.
	Priority int
	// Selector lists required node labels; Affinity adds further conditions on them.
	Selector map[string]string
	Affinity []Term
	// Tolerates lists the taints that the task tolerates.
	Tolerates []Toleration
	// Labels are the task's own labels; Near and Apart refer to labels of other tasks on the same node.
	Labels map[string]string
	Near   []Pair // at least one task on the node has each of these labels
	Apart  []Pair // no task on the node has any of these labels
}

// Pair is a label.
type Pair struct{ Key, Value string }

// Toleration matches taints. An empty key matches all taints, an empty value every taint with the key.
type Toleration struct{ Key, Value string }

// Operator compares a label with values.
type Operator uint8

// The operators of a term.
const (
	In Operator = iota
	NotIn
	Exists
	Missing
)

// Term is a condition on a node's labels. With a Weight it is only a preference.
type Term struct {
	Key    string
	Op     Operator
	Values []string
	Weight int
}

// Reservation keeps nodes for a job that has waited too long.
type Reservation struct {
	Job   string
	Nodes []string
	Since time.Time
	// Start is the time at which the nodes are expected to be empty; zero means unknown.
	Start time.Time
}
