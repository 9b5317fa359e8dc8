package client

import "github.com/tradewind-broker/tradewind/pkg/dag"

// Gang has it start together with the job's other tasks of the same gang, or not at all.
func (t *Task) Gang(name string) *Task { t.t.Gang = name; return t }

// Role is what the task is in its gang, its name until it is said: the others find its machines in
// $TRADEWIND_HOSTS_ROLE.
func (t *Task) Role(name string) *Task { t.t.Role = name; return t }

// Joins has it join a gang while that runs, and leave it again: more machines of a role that a task of the gang has.
func (t *Task) Joins(gang string) *Task { t.t.Joins = gang; return t }

// Framework has its machines, and those of its gang, told of each other in the words of a framework, such as
// dag.PyTorch. All tasks of a gang have the same.
func (t *Task) Framework(f dag.Framework) *Task { t.t.Framework = f; return t }

// Within is how close to each other the machines of its gang have to be; all tasks of a gang say the same.
func (t *Task) Within(w dag.Within) *Task { t.t.Within = w; return t }

// React says what becomes of its gang, or of the task that is in none, when something happens to it:
// dag.Reaction{Event: dag.PodFailed, Action: dag.RestartRole, Limit: 3}. The first for what happened counts.
func (t *Task) React(r dag.Reaction) *Task { t.t.On = append(t.t.On, r); return t }
