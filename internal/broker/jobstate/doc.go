// Package jobstate has the decisions about a job: its start, the tasks that are ready, the consequences of a task's
// success or failure, the switch to a new plan, the wait for a plan, and its end. They are functions of records,
// events and a time. Package attempt has the decisions about the attempts of tasks.
package jobstate
