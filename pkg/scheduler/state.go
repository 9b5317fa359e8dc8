package scheduler

// State is the state of a task (Volcano, "scheduling framework": the states of a pod).
type State uint8

// The states of a task. Allocated and Pipelined exist only within a session.
const (
	Pending   State = iota // waits to be scheduled
	Allocated              // has idle resources in this session; undone if its gang is not ready at the end
	Pipelined              // will get resources that are being released; not reported to the caller as started
	Binding                // decided; the outcome is not recorded yet
	Bound                  // recorded; not running yet
	Releasing              // asked to stop; still holds its resources
	Running
	Succeeded
	Failed
	Unknown // its node does not respond
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

// Holds reports whether a task in this state holds resources of its node. Unknown does, because it may still run.
func (s State) Holds() bool {
	switch s {
	case Allocated, Binding, Bound, Releasing, Running, Unknown:
		return true
	case Pending, Pipelined, Succeeded, Failed:
	}
	return false
}

// Occupies reports whether the job counts the task as one of its members: it runs, will run, or has succeeded.
func (s State) Occupies() bool {
	switch s {
	case Allocated, Binding, Bound, Running, Succeeded:
		return true
	case Pending, Pipelined, Releasing, Failed, Unknown:
	}
	return false
}

// Ended reports whether a task in this state has succeeded or failed.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Phase is the phase of a job.
type Phase uint8

// The phases of a job.
const (
	Waiting  Phase = iota // not yet admitted by enqueue
	Inqueue               // admitted: allocate considers it
	Started               // has had its minimum of members
	Finished              // succeeded as a whole
	Aborted               // failed as a whole
)

var phaseNames = [...]string{"waiting", "inqueue", "started", "finished", "aborted"}

// String returns the phase's name.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "phase?"
}

// Ended reports whether the job has finished or was aborted; its tasks are not scheduled again.
func (p Phase) Ended() bool { return p == Finished || p == Aborted }

// Reaction states what happens to a job after a failure.
type Reaction uint8

// The reactions to a failed task, or to a failed job in Job.After.
const (
	Ignore  Reaction = iota // the job continues with its remaining members
	Restart                 // all members are stopped and started again
	Abort                   // all members are stopped and the job fails
)

// String returns the reaction's name.
func (r Reaction) String() string { return [...]string{"ignore", "restart", "abort"}[min(r, Abort)] }
