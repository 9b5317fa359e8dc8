// Package tes speaks the Task Execution Service of GA4GH, version 1.1: it makes a job of a task as TES describes it,
// and tells of that job as TES tells of tasks (https://github.com/ga4gh/task-execution-schemas).
//
// All of it is pure. A task becomes a job of one task whose script runs the executors one after the other in a
// container. The script writes how each of them ended into the task's log, from which [ReadLog] has it.
//
// It is not the server: internal/api has the routes.
package tes
