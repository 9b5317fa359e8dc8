// Package proc runs a task's process tree so that it cannot outlive the process that started it, and distinguishes a
// process from a later one with the same PID.
//
// A supervisor starts the task: this same program, started again under another name. It adopts every orphan of the
// task (on Linux as their subreaper, prctl(2)). It ends the whole tree on request, and kills it at once when the pipe
// to its owner breaks, which happens however the owner dies, even by SIGKILL. If the supervisor itself is killed, the
// task's first process dies with it (PR_SET_PDEATHSIG), and the owner kills its process group.
//
// Without subreapers (macOS), processes that leave the task's process group with setsid(2) escape.
//
// A program that uses Start must call Reexec at the beginning of main.
package proc
