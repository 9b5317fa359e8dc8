// Package container runs a task's scripts in an image, with docker or podman, whichever the machine has.
//
// An attempt has one container for its whole life, so that the command finds what the setup installed. The
// container's first process only waits for its standard input to end. When the process that started it ends, for
// whatever reason, the container ends too and is removed. Scripts run in it with the engine's exec. A signal for a
// task goes to every process in the container, as it goes to every process of the tree if there is no container.
//
// Scripts and their environment are passed to the container as files, never as arguments, because every user can read
// process lists. The container shares the machine's network, so that nodes reach each other as without containers,
// and sees the attempt's directories under the same paths.
package container
