// Package proc runs a task's process tree so that it cannot outlive whoever
// started it, and tells one process from another that got its number later.
//
// A task is started by a supervisor: this same program, run again under another
// name, which adopts every orphan of the task (on Linux as their subreaper,
// prctl(2)), ends the whole tree when it is told to, and kills it at once when the pipe to
// its owner breaks, which happens however the owner dies, by SIGKILL too. If the
// supervisor itself is killed, the task's first process dies with it (PR_SET_PDEATHSIG)
// and the owner kills its group.
//
// Where there is no subreaper (macOS), what leaves the task's process group, by
// setsid(2), escapes.
//
// A program that uses Start must call Reexec first thing in main.
package proc
