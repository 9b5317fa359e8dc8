package cluster

// State is where a task is in its life (Volcano, "scheduling framework": the states of a pod).
type State uint8

// The states of a task. Allocated and Pipelined exist within a session only.
const (
	Pending   State = iota // waits to be scheduled
	Allocated              // has idle resources in this session; undone when its gang is not ready at the end of it
	Pipelined              // has resources that are being released; nothing is told to anyone
	Binding                // decided; the outcome is not recorded yet
	Bound                  // recorded; not running yet
	Releasing              // told to stop; holds its resources still
	Running
	Succeeded
	Failed
	Unknown // its node is not heard of
)

var stateNames = [...]string{
	"pending", "allocated", "pipelined", "binding", "bound", "releasing", "running", "succeeded", "failed", "unknown",
}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state?"
}

// Holds says whether a task in this state holds resources of its node. An unknown one does: it may run still.
func (s State) Holds() bool {
	switch s {
	case Allocated, Binding, Bound, Releasing, Running, Unknown:
		return true
	case Pending, Pipelined, Succeeded, Failed:
	}
	return false
}

// Occupies says whether a task counts as a member that its job has: it runs, will, or is done.
func (s State) Occupies() bool {
	switch s {
	case Allocated, Binding, Bound, Running, Succeeded:
		return true
	case Pending, Pipelined, Releasing, Failed, Unknown:
	}
	return false
}

// Over says whether a task in this state will not run again.
func (s State) Over() bool { return s == Succeeded || s == Failed }

// Phase is where a job is in its life.
type Phase uint8

// The phases of a job.
const (
	Waiting  Phase = iota // not yet let in by enqueue
	Inqueue               // let in: allocate looks at it
	Started               // has had its minimum of members
	Finished              // succeeded, as a whole
	Aborted               // failed, as a whole
)

var phaseNames = [...]string{"waiting", "inqueue", "started", "finished", "aborted"}

// String returns the phase's name.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "phase?"
}

// Over says whether nothing of the job will be scheduled any more.
func (p Phase) Over() bool { return p == Finished || p == Aborted }

// Reaction is what a failure does to a job.
type Reaction uint8

// The reactions to a failed task, or to a failed job that another waits for.
const (
	Ignore  Reaction = iota // the job goes on with what it has left
	Restart                 // all of it is stopped and starts again
	Abort                   // all of it is stopped and it has failed
)

// String returns the reaction's name.
func (r Reaction) String() string { return [...]string{"ignore", "restart", "abort"}[min(r, Abort)] }
