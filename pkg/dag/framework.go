package dag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// chiefs has, for each framework, the usual names of the role whose end ends the whole program.
var chiefs = map[Framework][]string{
	PyTorch:    {"master", "chief", "launcher"},
	TensorFlow: {"chief", "master"},
	MPI:        {"launcher", "master", "mpimaster"},
	Horovod:    {"launcher", "master", "driver"},
	Ray:        {"driver", "head"},
	Spark:      {"driver", "master"},
	Dask:       {"client", "driver", "scheduler"},
}

// Chief reports whether the end of the task ends the work of its gang. A task with the reaction taskCompleted:
// complete is a chief. In a gang of several roles with a framework, the chief is the role with one of the framework's
// names, or else the first role.
func (j *Job) Chief(task int) bool {
	t := &j.Tasks[task]
	if t.Gang == "" {
		return false
	}
	if slices.ContainsFunc(t.On, func(r Reaction) bool { return r.Event == TaskCompleted && r.Action == Complete }) {
		return true
	}
	if t.Framework == "" {
		return false
	}
	members := j.Gang(task)
	if len(members) < 2 {
		return false
	}
	for _, name := range chiefs[t.Framework] {
		for _, i := range members {
			if strings.EqualFold(j.Tasks[i].RoleName(), name) {
				return i == task
			}
		}
	}
	return members[0] == task
}

// RoleName returns the task's role in its gang: Role, or else its name.
func (t *Task) RoleName() string {
	if t.Role != "" {
		return t.Role
	}
	return t.Name
}

// Event is an event that may happen to a task.
type Event string

// The events, in Volcano's words. A pod is a machine of a task here.
const (
	PodFailed     Event = "podFailed"     // a machine's script ended with an exit code other than 0
	PodEvicted    Event = "podEvicted"    // a machine was interrupted, or could not be launched
	TaskFailed    Event = "taskFailed"    // the task has failed and is not tried again
	TaskCompleted Event = "taskCompleted" // the scripts of all its machines have succeeded
)

var happenings = []Event{PodFailed, PodEvicted, TaskFailed, TaskCompleted}

// Check returns an error if h is not one of the events.
func (h Event) Check() error { return fault.CheckWord("event", h, happenings...) }

// Action is the reaction to an event.
type Action string

// The actions.
const (
	RestartGang Action = "restartGang" // the whole gang starts again, from its checkpoints
	RestartRole Action = "restartRole" // the role's machines start again, while the rest of the gang continues
	Abort       Action = "abort"       // the job fails
	Complete    Action = "complete"    // the gang's work is done: its other tasks are ended and count as succeeded
)

var actions = []Action{RestartGang, RestartRole, Abort, Complete}

// Check returns an error if a is not one of the actions.
func (a Action) Check() error { return fault.CheckWord("action", a, actions...) }

// actionsFor has the actions that are possible for each event.
var actionsFor = map[Event][]Action{
	PodFailed:     {RestartGang, RestartRole, Abort},
	PodEvicted:    {RestartGang, RestartRole},
	TaskFailed:    {Abort},
	TaskCompleted: {Complete},
}

// Reaction is the action for an event of a task.
type Reaction struct {
	Event  Event  `json:"event"`
	Action Action `json:"action"`
	// Limit is the maximum number of restarts of the gang or role for PodFailed before the job fails; 0 means
	// Task.Retries.
	Limit int `json:"limit,omitempty"`
	// ExitCodes limits a reaction to PodFailed to these exit codes; nil means any.
	ExitCodes []int `json:"exitCodes,omitempty"`
}

// Reaction returns the first reaction of the task that applies to an event. The exit code is only used for PodFailed.
func (t *Task) Reaction(to Event, exitCode int) (r Reaction, found bool) {
	for _, r := range t.On {
		if r.Event == to && (r.ExitCodes == nil || slices.Contains(r.ExitCodes, exitCode)) {
			return r, true
		}
	}
	return Reaction{}, false
}

// RetriesAfter returns the total number of times that the task is tried again after a failure, if
// its last failure had this exit code.
func (t *Task) RetriesAfter(exitCode int) int {
	r, found := t.Reaction(PodFailed, exitCode)
	switch {
	case found && r.Action == Abort:
		return 0
	case found && r.Limit > 0:
		return r.Limit
	}
	return t.Retries
}

// Check returns an error if the reaction is invalid.
func (r Reaction) Check() error {
	if err := fault.Within("event", r.Event.Check()); err != nil {
		return err
	}
	if err := r.Action.Check(); err != nil {
		return fault.Within("action", err)
	}
	if !slices.Contains(actionsFor[r.Event], r.Action) {
		words := make([]string, len(actionsFor[r.Event]))
		for i, a := range actionsFor[r.Event] {
			words[i] = string(a)
		}
		return fault.Within("action", fault.New(fmt.Sprintf("%s is not possible for %s", r.Action, r.Event),
			"choose from: "+strings.Join(words, ", ")))
	}
	if r.Limit != 0 && (r.Action != RestartGang && r.Action != RestartRole || r.Event != PodFailed) {
		return fault.Within("limit", fault.New("only restarts after podFailed have a limit", "leave it out"))
	}
	if err := fault.Within("limit", jobtext.CheckCount(r.Limit, 0, jobtext.MaxRetries)); err != nil {
		return err
	}
	if r.ExitCodes != nil && r.Event != PodFailed {
		return fault.Within("exitCodes", fault.New("only a machine that fails has an exit code", "use podFailed"))
	}
	if len(r.ExitCodes) > jobtext.MaxReactions {
		return fault.Within("exitCodes", fault.OverLimit(
			fmt.Sprintf("%d exit codes, more than %d", len(r.ExitCodes), jobtext.MaxReactions), ""))
	}
	for i, code := range r.ExitCodes {
		if code < 1 || code > 255 {
			return fault.Within("exitCodes"+fault.Index(i), fault.New(
				fmt.Sprintf("%d is not the exit code of a failure", code), "from 1 to 255"))
		}
	}
	return nil
}

// checkGang checks the fields of a task that concern its gang.
func (t *Task) checkGang() error {
	if t.Role != "" && t.Gang == "" && t.Joins == "" {
		return fault.Within("role", fault.New("only a task of a gang has a role", "add gang: NAME"))
	}
	if t.Within != "" && t.Gang == "" && t.Joins == "" {
		return fault.Within("within", fault.New("only a task of a gang has within", "add gang: NAME"))
	}
	if t.Gang != "" && t.Joins != "" {
		return fault.Within("joins", fault.New("cannot be combined with gang", "remove one of them"))
	}
	if n := len(t.On); n > jobtext.MaxReactions {
		return fault.Within("on", fault.OverLimit(
			fmt.Sprintf("%d reactions, more than %d", n, jobtext.MaxReactions), ""))
	}
	return eachChecked("on", t.On, func(r *Reaction) error { return r.Check() })
}
