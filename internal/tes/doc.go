// Package tes implements the Task Execution Service of GA4GH, version 1.1, without the server, which is in pkg/api: it
// converts TES tasks to jobs and jobs to TES tasks (https://github.com/ga4gh/task-execution-schemas).
//
// It does no I/O. A TES task becomes a job with one task, whose script runs the executors one after the other in a
// container. The script writes the result of each executor into the task's log, where [ReadLog] finds it.
package tes
