package cluster

import "time"

// Snapshot is the cluster at one moment, as the caller sees it.
type Snapshot struct {
	Now time.Time
	// Resources names what vectors count, at most MaxResources.
	Resources []string
	// Units is how much of each makes one as reasons write it: 1000 where vectors count thousandths. 0 is 1.
	Units Vector
	// GPU is the place of GPUs in vectors, in thousandths; negative where there are none. Of this
	// resource a node's capacity is Whole for each of its devices, and a task's request Share on each of so many
	// different devices: both follow from Node.Devices and Spec.Devices and are filled in by Open.
	GPU        int
	Nodes      []Node
	Queues     []Queue
	Namespaces []Namespace
	Jobs       []Job
	// Reservations are what earlier sessions made.
	Reservations []Reservation
}

// Node is a machine.
type Node struct {
	Name     string
	Capacity Vector
	Devices  int // GPUs
	Labels   map[string]string
	Taints   []Taint
	// Topology is where it stands, the widest first: zone, rack. Nodes with the same beginning are close.
	Topology []string
	// Window names the time window (plugin tdm) that it is to be had in; empty is always.
	Window string
	// Closed keeps new tasks away: it is being drained, or not heard of.
	Closed bool
}

// Taint keeps tasks away that do not tolerate it. A soft one only makes others preferred.
type Taint struct {
	Key, Value string
	Soft       bool
}

// Queue is what jobs wait in, and a share of the cluster.
type Queue struct {
	Name   string
	Parent string // empty is the cluster itself
	Weight int    // against its siblings; 0 is 1
	// Priority orders siblings before shares do.
	Priority int
	// Guarantee is kept for the queue even while it has no use for it, Deserved is what it may take back from
	// others, Capability the most it may have.
	Guarantee  Vector
	Deserved   Limit
	Capability Limit
	// Closed queues start nothing new.
	Closed bool
	// Usage is what the queue used over time (Usage).
	Usage Usage
}

// Namespace is a user, or a group of users, whose jobs are in any queue.
type Namespace struct {
	Name   string
	Weight int // 0 is 1
	Usage  Usage
}

// Job is a group of tasks with what they need together.
type Job struct {
	ID, Queue, Namespace string
	Priority             int
	Created              time.Time
	Phase                Phase
	// Min members start together or not at all; 0 is one. Max members run at most; 0 is all.
	Min, Max int
	// Roles bound members by their Spec.Role besides.
	Roles []Role
	// Batch jobs can not go on without one of their members: if one is evicted all are.
	Batch bool
	// OnFailure is what the failure of a member does; Restarts how often that restarted the job, of MaxRestarts.
	OnFailure             Reaction
	Restarts, MaxRestarts int
	// After are jobs that have to be over before this one is let in.
	After []Dependency
	// Kept jobs are never evicted.
	Kept bool
	// Spares are the IDs of jobs that nothing is evicted of for this one.
	Spares []string
	// Duration is how long a member is expected to run; 0 is unknown.
	Duration time.Duration
	// Close asks for the members of the gang to stand close together; Depth of it is how many levels of Node.Topology
	// they share: 1 the zone, 2 the rack.
	Close Closeness
	// MaxWait is by when it should have started after Created; 0 is what the policy says.
	MaxWait time.Duration
	// WaitingSince is since when a job that has started waits for members that it should have; zero if it does not
	// mind.
	WaitingSince time.Time
	// Stranded is since when it has run with fewer members than its minimum; zero while it does not.
	Stranded time.Time
	Tasks    []Task
}

// Role is a kind of members of a job.
type Role struct {
	Name string
	Min  int
}

// Dependency is a job that has to be over before.
type Dependency struct {
	Job string
	// OnFailure says what the other's failure means: Ignore starts this one nevertheless, Abort fails it too.
	OnFailure Reaction
}

// Closeness is how close the members of a gang stand.
type Closeness struct {
	Depth    int  // 0 asks for nothing
	Required bool // else it is only tried
}

// Task is a member of a job. Tasks that share a Spec cost less.
type Task struct {
	ID    string
	Spec  *Spec
	State State
	// Node is where it holds resources, or for a pending task, where an earlier session made room for it.
	Node string
	// OnDevices are the node's devices whose share it holds.
	OnDevices []int
	Since     time.Time // in this state; zero is unknown
	Ends      time.Time // expected; zero is unknown
}

// Spec is what a task needs of a node.
type Spec struct {
	Request Vector
	// Devices is how many different GPUs it needs Share of each, in thousandths; 0 is Whole.
	Devices int
	Share   int64
	Role    string
	// Priority orders the tasks of a job.
	Priority int
	// Selector is what a node's labels have to be, Affinity what else has to be true of them.
	Selector map[string]string
	Affinity []Term
	// Tolerates are the taints it stands.
	Tolerates []Toleration
	// Labels are the task's own; Near and Apart speak of those of other tasks on the same node.
	Labels map[string]string
	Near   []Pair // at least one task with such a label
	Apart  []Pair // none
}

// Pair is a label.
type Pair struct{ Key, Value string }

// Toleration is a taint that is tolerated. An empty key tolerates all, an empty value every one of the key.
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

// Term is something that has to be true of a node's labels. With a Weight it only makes nodes preferred.
type Term struct {
	Key    string
	Op     Operator
	Values []string
	Weight int
}

// Reservation keeps nodes for a job that waits for too long.
type Reservation struct {
	Job   string
	Nodes []string
	Since time.Time
	// Start is when the nodes are expected to be empty; zero is unknown.
	Start time.Time
}
