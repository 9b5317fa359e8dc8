// Package jobstate has the decisions of a job's life: its start, which of its tasks are ready, what follows when a task
// succeeds or fails, the switch to a new plan, how long it waits without a plan, and its end. They are functions of
// records, events and a moment. Package attempt has the decisions about a task's attempts.
package jobstate
