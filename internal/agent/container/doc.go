// Package container runs a task's scripts in an image, with docker or podman, whichever the machine has.
//
// An attempt has one container from its start to its end, so that the command finds what the setup installed. The
// container's first process only waits for the end of its standard input. When the process that started the container
// ends, for any reason, the container ends and is removed. Scripts run in the container by the engine's exec. A
// signal for a task goes to every process in the container, like to every process of the tree without a container.
//
// Scripts and their environment are passed to the container as files, never as arguments, because every user can read
// process lists. The container shares the machine's network, so that nodes reach each other as without containers,
// and has the attempt's directories under the same paths.
package container
