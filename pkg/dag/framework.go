package dag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// chiefs are the names that a framework's users give to the role with which its work ends.
var chiefs = map[Framework][]string{
	PyTorch:    {"master", "chief", "launcher"},
	TensorFlow: {"chief", "master"},
	MPI:        {"launcher", "master", "mpimaster"},
	Horovod:    {"launcher", "master", "driver"},
	Ray:        {"driver", "head"},
	Spark:      {"driver", "master"},
	Dask:       {"client", "driver", "scheduler"},
}

// Chief says whether a task is the one with which the work of its gang ends: that of several roles of a framework whose
// name says so, or else the first of them; and any that On says it of.
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
			if strings.EqualFold(j.Tasks[i].RoleOf(), name) {
				return i == task
			}
		}
	}
	return members[0] == task
}

// RoleOf is what the task is in its gang.
func (t *Task) RoleOf() string {
	if t.Role != "" {
		return t.Role
	}
	return t.Name
}

// Happening is what may happen to a task.
type Happening string

// What may happen, in Volcano's words: a pod is a machine of a task here.
const (
	PodFailed     Happening = "podFailed"     // a machine's script ended with an exit code other than 0
	PodEvicted    Happening = "podEvicted"    // a machine was taken, or did not come
	TaskFailed    Happening = "taskFailed"    // the task has failed and is not tried again
	TaskCompleted Happening = "taskCompleted" // the scripts of all its machines have ended well
)

var happenings = []Happening{PodFailed, PodEvicted, TaskFailed, TaskCompleted}

// Check says what is wrong with a happening.
func (h Happening) Check() error { return fault.CheckWord("happening", h, happenings...) }

// Action is what is done about what happened.
type Action string

// The actions.
const (
	RestartGang Action = "restartGang" // all of the gang begins again, from its checkpoints
	RestartRole Action = "restartRole" // the role's machines begin again, while the others of the gang go on
	Abort       Action = "abort"       // the job fails
	Complete    Action = "complete"    // the gang's work is done: its others are ended, and count as succeeded
)

var actions = []Action{RestartGang, RestartRole, Abort, Complete}

// Check says what is wrong with an action.
func (a Action) Check() error { return fault.CheckWord("action", a, actions...) }

// follows are the actions that there are for what happens.
var follows = map[Happening][]Action{
	PodFailed:     {RestartGang, RestartRole, Abort},
	PodEvicted:    {RestartGang, RestartRole},
	TaskFailed:    {Abort},
	TaskCompleted: {Complete},
}

// Reaction is what is done when something happens to a task.
type Reaction struct {
	Event  Happening `json:"event"`
	Action Action    `json:"action"`
	// Limit is how often a gang or a role is restarted for PodFailed before the job fails; 0 is as often as
	// Task.Retries says.
	Limit int `json:"limit,omitempty"`
	// ExitCodes are those of PodFailed that it is for; nil is any.
	ExitCodes []int `json:"exitCodes,omitempty"`
}

// MaxReactions bounds those of a task, and the exit codes of each.
const MaxReactions = 64

// Reacts finds what is to be done when something happens to the task: the first of its reactions that is for it. The
// exit code counts for PodFailed.
func (t *Task) Reacts(to Happening, exitCode int) (r Reaction, found bool) {
	for _, r := range t.On {
		if r.Event == to && (r.ExitCodes == nil || slices.Contains(r.ExitCodes, exitCode)) {
			return r, true
		}
	}
	return Reaction{}, false
}

// RetriesAfter is how often in all the task may fail, the last time with an exit code, and be tried again.
func (t *Task) RetriesAfter(exitCode int) int {
	r, found := t.Reacts(PodFailed, exitCode)
	switch {
	case found && r.Action == Abort:
		return 0
	case found && r.Limit > 0:
		return r.Limit
	}
	return t.Retries
}

// Check says what is wrong with a reaction.
func (r Reaction) Check() error {
	if err := fault.Within("event", r.Event.Check()); err != nil {
		return err
	}
	if err := r.Action.Check(); err != nil {
		return fault.Within("action", err)
	}
	if !slices.Contains(follows[r.Event], r.Action) {
		words := make([]string, len(follows[r.Event]))
		for i, a := range follows[r.Event] {
			words[i] = string(a)
		}
		return fault.Within("action", fault.New(fmt.Sprintf("%s can not follow %s", r.Action, r.Event),
			"what can: "+strings.Join(words, ", ")))
	}
	if r.Limit != 0 && (r.Action != RestartGang && r.Action != RestartRole || r.Event != PodFailed) {
		return fault.Within("limit", fault.New("only restarts after podFailed have a limit", "leave it out"))
	}
	if err := fault.Within("limit", checkCount(r.Limit, 0, MaxRetries)); err != nil {
		return err
	}
	if r.ExitCodes != nil && r.Event != PodFailed {
		return fault.Within("exitCodes", fault.New("only a machine that fails has an exit code", "use podFailed"))
	}
	if len(r.ExitCodes) > MaxReactions {
		return fault.Within("exitCodes", fault.OverLimit(
			fmt.Sprintf("%d exit codes, more than %d", len(r.ExitCodes), MaxReactions), ""))
	}
	for i, code := range r.ExitCodes {
		if code < 1 || code > 255 {
			return fault.Within("exitCodes"+fault.Index(i), fault.New(
				fmt.Sprintf("%d is not the exit code of a failure", code), "from 1 to 255"))
		}
	}
	return nil
}

// checkGang checks what a task says of its place in a gang.
func (t *Task) checkGang() error {
	if t.Role != "" && t.Gang == "" && t.Joins == "" {
		return fault.Within("role", fault.New("a role is one of a gang", "say which: gang: NAME"))
	}
	if t.Within != "" && t.Gang == "" && t.Joins == "" {
		return fault.Within("within", fault.New("is for the machines of a gang", "say which: gang: NAME"))
	}
	if t.Gang != "" && t.Joins != "" {
		return fault.Within("joins", fault.New("is in a gang and joins one", "say gang or joins"))
	}
	if n := len(t.On); n > MaxReactions {
		return fault.Within("on", fault.OverLimit(fmt.Sprintf("%d reactions, more than %d", n, MaxReactions), ""))
	}
	return eachChecked("on", t.On, func(r *Reaction) error { return r.Check() })
}
