package client

import "github.com/tradewind-broker/tradewind/pkg/dag"

// Gang sets the gang of the task: all tasks of a gang start together or not at all.
func (t *Task) Gang(name string) *Task { t.t.Gang = name; return t }

// Role sets the task's role in its gang, by default its name. The other tasks find its machines in
// $TRADEWIND_HOSTS_ROLE.
func (t *Task) Role(name string) *Task { t.t.Role = name; return t }

// Joins makes the task join a running gang, and leave it again: more machines for a role that a task of the gang has.
func (t *Task) Joins(gang string) *Task { t.t.Joins = gang; return t }

// Framework sets the framework, such as dag.PyTorch. Its environment variables describe the machines of a gang to
// each other. All tasks of a gang need the same framework.
func (t *Task) Framework(f dag.Framework) *Task { t.t.Framework = f; return t }

// Within sets the maximum distance between the machines of the gang. All tasks of a gang need the same value.
func (t *Task) Within(w dag.Within) *Task { t.t.Within = w; return t }

// React sets the reaction of the gang, or of a task without a gang, to an event of the task: dag.Reaction{Event:
// dag.PodFailed, Action: dag.RestartRole, Limit: 3}. The first matching reaction applies.
func (t *Task) React(r dag.Reaction) *Task { t.t.On = append(t.t.On, r); return t }
