// Package container runs a task's scripts in an image, by docker or podman, whichever the machine has.
//
// One container lives as long as the attempt, so that what the set-up installed is there when the command runs. Its
// first process does nothing but wait for its standard input to end: when whoever started it is gone, however it went,
// the container ends and is removed. Scripts run beside it by the engine's exec. A signal for a task goes to every
// process in the container, as it goes to every process of the tree where there is none.
//
// Scripts and their environment reach the container as files, never as arguments: process lists are for everyone to
// read. It shares the machine's network, so that nodes meet as they do without, and sees the attempt's directories
// under the same paths.
package container
