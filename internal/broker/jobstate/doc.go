// Package jobstate has the decisions of a job's life: its start, the tasks that are ready, the consequences of a task's
// success or failure, the switch to a new plan, the time that it waits without a plan, and its end. They are functions
// of records, events and a moment. Package attempt has the decisions about a task's attempts.
package jobstate
